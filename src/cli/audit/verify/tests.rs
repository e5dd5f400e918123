use super::*;
use crate::audit::Head;
use crate::types::LogId;

#[test]
fn heads_are_read_as_they_are_published() {
    let hash = "ab".repeat(32);
    let one = GivenHead::published(Head { hash: hash.clone(), seq: 12 });
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
    let log = LogId([0xab; 16]);
    for text in [
        format!("12:{hash}  2026-11-20T12:00:00.000000Z  log:{log}\n"),
        format!("{{\"hash\":\"{hash}\",\"log\":\"{log}\",\"seq\":12}}\n"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let of_log = one.clone().of_log(Some(log));
        assert_eq!(heads(path.to_str().unwrap()), Ok(Heads(vec![of_log])), "{text}");
    }
    std::fs::write(&path, format!("12:{hash}\n12:{hash}\n")).unwrap();
    assert_eq!(heads(path.to_str().unwrap()), Ok(Heads(vec![one.clone(), one])));
    assert!(heads("12:abc").is_err());
}
