//! A query that goes on, while the log is written, rotated and compressed.

use std::os::unix::process::ExitStatusExt;

use crate::audit_cli::support::{Following, Log, audit, compress, record};

/// Follows, as JSON, from the beginning.
fn follow(log: &Log, arguments: &[&str]) -> Following {
    let arguments = [&["query", "--follow", "--format", "json"], arguments].concat();
    Following::start(audit(log.dir.path(), &arguments))
}

/// Writes records, and waits until their lines have been printed, each once and in order.
#[track_caller]
fn write_and_see(log: &mut Log, following: &mut Following, numbers: std::ops::Range<u64>) {
    for line in log.write(numbers.map(record)) {
        assert_eq!(following.next(), line);
    }
}

#[test]
fn records_are_printed_as_they_come_through_every_rotation() {
    let mut log = Log::new();
    log.write([record(0)]);
    let mut following = follow(&log, &["--tail", "1"]);
    assert!(following.next().contains("\"seq\":1,"));
    write_and_see(&mut log, &mut following, 1..3);
    // By the writer: renamed, a new file, and the old one compressed.
    let closed = log.rotate();
    write_and_see(&mut log, &mut following, 3..5);
    compress(&closed);
    write_and_see(&mut log, &mut following, 5..7);
    // What was written before the rotation, but not seen by then, comes first.
    let late = log.write([record(7), record(8)]);
    let closed = log.rotate();
    compress(&closed);
    let more = log.write([record(9)]);
    for line in late.iter().chain(&more) {
        assert_eq!(following.next(), *line);
    }
    let (status, said) = following.interrupt();
    assert_eq!((status.signal(), said.as_str()), (Some(2), ""));
}

#[test]
fn only_what_matches_is_printed_and_half_a_line_waits() {
    use std::io::Write;
    let mut log = Log::new();
    let mut following = follow(&log, &["--agent", "wget"]);
    let lines = log.write((0..4).map(record));
    assert_eq!((following.next(), following.next()), (lines[1].clone(), lines[3].clone()));
    let mut next = Vec::new();
    log.head.push(courtesy::audit::Content::Record(Box::new(record(5))), &mut next);
    let mut file = std::fs::OpenOptions::new().append(true).open(log.active()).unwrap();
    let (half, rest) = next.split_at(100);
    file.write_all(half).unwrap();
    let other =
        Following::start(audit(log.dir.path(), &["query", "--format", "json", "--tail", "1"]));
    // A query that began later has seen the half line, and does not print it.
    assert_eq!({ other }.next(), lines[3]);
    file.write_all(rest).unwrap();
    assert_eq!(following.next().as_bytes(), next.trim_ascii_end());
}

#[test]
fn a_log_that_is_not_there_yet_is_waited_for() {
    let mut log = Log::new();
    let mut following = follow(&log, &["--limit", "2"]);
    following.rests();
    write_and_see(&mut log, &mut following, 0..2);
    let (status, said) = following.hang_up();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}

#[test]
fn follow_ends_when_its_reader_has_left_although_no_record_comes() {
    let mut log = Log::new();
    log.write([record(0)]);
    let mut following = follow(&log, &[]);
    following.next();
    let (status, said) = following.hang_up();
    assert_eq!((status.code(), said.as_str()), (Some(0), ""));
}
