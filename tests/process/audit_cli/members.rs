//! A segment that is compressed in members: read by tools of the system and by every command, whatever its summary says.

use std::fs;
use std::process::Command;

use crate::audit_cli::support::{Log, audit, compress, ended, id, record, succeeds};

#[test]
fn a_segment_in_members_is_read_whole_whatever_its_summary_says() {
    let mut log = Log::new();
    log.write((1..=40).map(record));
    let closed = log.rotate();
    let text = fs::read(&closed).unwrap();
    log.write((41..=42).map(record));
    compress(&closed);
    let packed = closed.with_added_extension("gz");
    let begins = fs::read(&packed).unwrap();
    let begins = begins.windows(3).filter(|bytes| *bytes == [0x1f, 0x8b, 8]).count();
    assert!(begins > 8, "{begins} members");
    assert!(Command::new("gzip").arg("-t").arg(&packed).status().unwrap().success());
    assert_eq!(Command::new("zcat").arg(&packed).output().unwrap().stdout, text);

    let dir = log.dir.path();
    let summary = closed.with_extension("summary");
    let right = fs::read(&summary).unwrap();
    let (part, id) = (dir.join("part.tar"), id(17));
    let commands = [
        &["verify"][..],
        &["verify", "--format", "json"],
        &["replay"],
        &["query", "--format", "json"],
        &["query", "--origin", "www1.example.com", "--format", "json"],
        &["show", "17", "--format", "json"],
        &["show", &id, "--format", "json"],
        &["show", "40", "--format", "json"],
        &["report", "--format", "json"],
    ];
    let answers = || {
        commands.map(|arguments| {
            let (code, text, warnings) = ended(&mut audit(dir, arguments));
            // The report says when it was made.
            let lines = text.lines().filter(|line| !line.contains("\"made_at\""));
            (code, lines.collect::<Vec<_>>().join("\n"), warnings)
        })
    };
    let expected = answers();
    for (arguments, (code, text, warnings)) in commands.iter().zip(&expected) {
        let is_replay = arguments[0] == "replay";
        assert!(is_replay || *code == Some(0), "{arguments:?}: {code:?} {text} {warnings}");
    }
    assert_eq!(expected[3].1.lines().count(), 42);
    let half = right[..right.len() / 2].to_vec();
    for stored in [Some(half), Some(b"nonsense".to_vec()), None] {
        match &stored {
            Some(stored) => fs::write(&summary, stored).unwrap(),
            None => fs::remove_file(&summary).unwrap(),
        }
        assert_eq!(answers(), expected, "{stored:?}");
    }
    fs::write(&summary, right).unwrap();
    let arguments = ["export", "--output", part.to_str().unwrap()];
    succeeds(&mut audit(dir, &arguments));
    let names = Command::new("tar").arg("-tf").arg(&part).output().unwrap().stdout;
    let names = String::from_utf8(names).unwrap();
    assert!(names.contains("denials-000000000001.jsonl.gz"), "{names}");
    assert!(!names.contains("summary"), "{names}");
}
