use super::*;

#[test]
fn only_names_that_we_give_are_ours() {
    for (name, expected) in [
        ("denials-000000000001.jsonl", Some((1, ".jsonl"))),
        ("denials-000000000001.jsonl.gz", Some((1, ".jsonl.gz"))),
        ("denials-1234567890123.evidence", Some((1_234_567_890_123, ".evidence"))),
        ("denials-000000000001.jsonl.1", Some((1, ".jsonl.1"))),
        ("denials-20261121.jsonl", None),
        ("denials-0000000000001.jsonl", None),
        ("denials-+00000000001.jsonl", None),
        ("denials.jsonl", None),
        ("denials.jsonl.1", None),
        ("head.json", None),
    ] {
        assert_eq!(ours(name), expected, "{name}");
    }
}
