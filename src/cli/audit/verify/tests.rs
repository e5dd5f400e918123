use super::*;
use crate::audit::Head;

#[test]
fn heads_are_read_as_they_are_published() {
    let hash = "ab".repeat(32);
    let one = Head { hash: hash.clone(), seq: 12 };
    assert_eq!(heads(&format!("12:{hash}")), Ok(Heads(vec![one.clone()])));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("heads");
    for text in [
        format!("2026-11-20T12:00:00Z 12:{hash} audit\n"),
        format!("{{\"hash\":\"{hash}\",\"seq\":12}}\n"),
        format!("{{\n  \"seq\": 12,\n  \"hash\": \"{hash}\",\n  \"time\": null\n}}\n"),
    ] {
        std::fs::write(&path, &text).unwrap();
        assert_eq!(heads(path.to_str().unwrap()), Ok(Heads(vec![one.clone()])), "{text}");
    }
    std::fs::write(&path, format!("12:{hash}\n12:{hash}\n")).unwrap();
    assert_eq!(heads(path.to_str().unwrap()), Ok(Heads(vec![one.clone(), one])));
    assert!(heads("12:abc").is_err());
}
