//! Closed files: compressed, listed, removed in time; and the crashes between.

mod pruning;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::evidence::{Blob, BlobStore, Kind};
use crate::types::sanitize::sha256_hex;

/// Something that a crash leaves half done.
type Step<'a> = &'a dyn Fn(&Path);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Each record a file, kept for thirty days.
fn month(config: &mut Config) {
    (config.rotate_size, config.retain) = (1, Some(30 * DAY));
}

fn blob(content: &str) -> Blob {
    let sha256 = Sha256::digest(content).into();
    Blob { sha256, kind: Kind::File, content: content.as_bytes().to_vec().into() }
}

/// Writes a record of now that names `content`.
fn write_naming(writer: &Writer, clock: &ManualClock, content: &str) {
    let mut record = Record { time: clock.wall(), ..full() };
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(content.as_bytes())), None);
    block_on(writer.write(record, vec![blob(content)])).unwrap();
}

/// Does `act`, by which at least one file is closed: a notice of the keeper's may be closed beside it.
#[track_caller]
fn until_closed(writer: &Writer, act: impl FnOnce()) {
    let closed = writer.health().segments_closed;
    act();
    until("it is closed", || writer.health().segments_closed > closed);
}

/// In a file of its own.
#[track_caller]
fn write_alone(writer: &Writer, clock: &ManualClock, content: &str) {
    until_closed(writer, || write_naming(writer, clock, content));
}

/// Closes the file that is written.
#[track_caller]
fn close(writer: &Writer, dir: &Path) {
    until_closed(writer, || {
        writer.change(Config { rotate_size: 1, ..Config::new(dir.to_owned()) }).unwrap()
    });
}

fn is_kept(dir: &Path, content: &str) -> bool {
    BlobStore::of(dir).path(Kind::File, &sha256_hex(content.as_bytes())).exists()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.starts_with("denials-")).collect()
}

fn put_away(seqs: impl IntoIterator<Item = u64>) -> BTreeSet<String> {
    let files =
        |seq| ["jsonl.gz", "evidence", "summary"].map(|end| format!("denials-{seq:012}.{end}"));
    seqs.into_iter().flat_map(files).collect()
}

#[track_caller]
fn until_put_away(dir: &Path, seqs: impl IntoIterator<Item = u64>) {
    let expected = put_away(seqs);
    until("the closed files are put away", || names(dir) == expected);
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut lines = Vec::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap())
        .read_to_end(&mut lines)
        .unwrap();
    lines
}

/// A log of three closed files, put away.
fn three(dir: &Path) -> Vec<Content> {
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir, clock.clone(), |config| config.rotate_size = 1).unwrap();
    ["one", "two", "one"].iter().for_each(|content| write_alone(&writer, &clock, content));
    until_put_away(dir, 1..=3);
    chain(dir)
}

#[test]
fn a_closed_file_is_compressed_and_says_beside_it_what_it_names() {
    let dir = tempfile::tempdir().unwrap();
    let contents = three(dir.path());
    assert_eq!(contents.len(), 3);
    let list = fs::read_to_string(dir.path().join("denials-000000000002.evidence")).unwrap();
    let lines = unpacked(&dir.path().join("denials-000000000002.jsonl.gz"));
    let hash = checked_hash(lines.trim_ascii_end()).unwrap();
    assert_eq!(list, format!("2026-11-20T12:00:00.123000Z 2 {hash}\n{}.txt\n", sha256_hex(b"two")));
}

#[test]
fn the_list_is_the_same_whether_the_writer_tells_it_or_the_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    write_naming(&open_at(dir.path(), clock.clone(), |_| {}).unwrap(), &clock, "one");
    let writer = open_at(dir.path(), clock.clone(), |_| {}).unwrap();
    ["two", "one", "three"].iter().for_each(|content| write_naming(&writer, &clock, content));
    let (event, prev, sha256) = (TornEvent::It, String::new(), "0".repeat(64));
    let torn = Torn { event, node: None, bytes: 1, prev, seq: 0, sha256, time: clock.wall() };
    block_on(writer.note(Notice::Torn(torn))).unwrap();
    close(&writer, dir.path());
    until_put_away(dir.path(), [1]);
    drop(writer);
    let list = dir.path().join("denials-000000000001.evidence");
    let text = fs::read_to_string(&list).unwrap();
    assert_eq!(text.lines().count(), 4, "{text}");
    fs::remove_file(&list).unwrap();
    let _writer = open(dir.path()).unwrap();
    until_put_away(dir.path(), [1]);
    assert_eq!(fs::read_to_string(&list).unwrap(), text);
}

#[test]
fn what_was_written_is_listed_though_somebody_has_damaged_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |_| {}).unwrap();
    write_naming(&writer, &clock, "one");
    let path = dir.path().join(FILE_NAME);
    let length = fs::metadata(&path).unwrap().len().try_into().unwrap();
    fs::write(&path, vec![b'x'; length]).unwrap();
    close(&writer, dir.path());
    // A summary it has none: nothing can be said of it.
    let mut expected = put_away([1]);
    expected.remove("denials-000000000001.summary");
    until("the closed file is put away", || names(dir.path()) == expected);
    let list = fs::read_to_string(dir.path().join("denials-000000000001.evidence")).unwrap();
    assert!(list.ends_with(&format!("\n{}.txt\n", sha256_hex(b"one"))), "{list}");
}

#[test]
fn the_list_that_another_log_has_left_is_not_taken_for_the_files_own() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    three(other.path());
    let list = |dir: &Path, seq: u64| dir.join(format!("denials-{seq:012}.evidence"));
    fs::copy(list(other.path(), 2), list(dir.path(), 1)).unwrap();
    three(dir.path());
    let own = fs::read_to_string(list(other.path(), 1)).unwrap();
    until("it is made anew", || fs::read_to_string(list(dir.path(), 1)).unwrap() == own);
}

/// What a crash leaves between any two steps of the keeper, made by hand.
#[test]
fn a_crash_while_a_file_is_put_away_costs_nothing() {
    let file = |dir: &Path, end: &str| dir.join(format!("denials-000000000002.{end}"));
    let unpack =
        |dir: &Path| fs::write(file(dir, "jsonl"), unpacked(&file(dir, "jsonl.gz"))).unwrap();
    let unfinished =
        |dir: &Path| fs::rename(file(dir, "jsonl.gz"), file(dir, "jsonl.gz.tmp")).unwrap();
    let half = |dir: &Path| fs::write(file(dir, "evidence.tmp"), "2026").unwrap();
    let unlisted = |dir: &Path| fs::remove_file(file(dir, "evidence")).unwrap();
    // After the first member, and before the last.
    let cut = |dir: &Path| {
        let packed = fs::read(file(dir, "jsonl.gz")).unwrap();
        fs::write(file(dir, "jsonl.gz.tmp"), [&packed[..], &packed[..40]].concat()).unwrap();
        fs::remove_file(file(dir, "jsonl.gz")).unwrap();
    };
    let half_summary = |dir: &Path| {
        fs::rename(file(dir, "summary"), file(dir, "summary.tmp")).unwrap();
    };
    let states: [&[Step]; 8] = [
        &[&unpack, &cut],
        &[&unpack, &unfinished, &half_summary],
        &[&unpack, &unfinished, &unlisted],
        &[&unpack, &unfinished, &half, &unlisted],
        &[&unpack, &unfinished],
        &[&unpack],
        &[&unlisted],
        &[&half],
    ];
    for (number, state) in states.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let before = three(dir.path());
        state.iter().for_each(|step| step(dir.path()));
        let writer = open(dir.path()).unwrap();
        until_put_away(dir.path(), 1..=3);
        drop(writer);
        assert_eq!(chain(dir.path()), before, "state {number}");
    }
}

#[test]
fn a_removed_file_and_its_evidence_stay_removed_after_a_crash() {
    let list = |dir: &Path, end: &str| dir.join(format!("denials-000000000002.{end}"));
    let listed = |dir: &Path| fs::rename(list(dir, "evidence"), list(dir, "pruned")).unwrap();
    let removed = |dir: &Path| fs::remove_file(file_of(dir, 2)).unwrap();
    let states: [(&[Step], bool); 2] = [(&[&listed], true), (&[&listed, &removed], false)];
    for (state, is_there) in states {
        let dir = tempfile::tempdir().unwrap();
        three(dir.path());
        state.iter().for_each(|step| step(dir.path()));
        let writer = open(dir.path()).unwrap();
        let expected = put_away((1..=3).filter(|seq| is_there || *seq != 2));
        until("what was begun is brought to its end", || names(dir.path()) == expected);
        drop(writer);
        assert_eq!((is_kept(dir.path(), "one"), is_kept(dir.path(), "two")), (true, is_there));
    }
}

#[test]
fn two_files_that_should_be_the_same_and_are_not_are_both_kept() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let plain = dir.path().join("denials-000000000002.jsonl");
    fs::write(&plain, "something else\n").unwrap();
    let writer = open_with(dir.path(), |config| config.rotate_size = 1).unwrap();
    // A later file is put away all the same.
    assert_eq!(write(&writer), 4);
    let mut expected = put_away(1..=4);
    expected.insert("denials-000000000002.jsonl".into());
    until("the others are put away", || names(dir.path()) == expected);
}

#[test]
fn who_reads_while_files_are_put_away_misses_none() {
    const FILES: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |config| config.rotate_size = 1).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let least = writer.health().segments_closed;
                let found: Vec<_> = segment::list(dir.path()).unwrap();
                let seqs: Vec<_> = found.iter().map(|segment| segment.first_seq).collect();
                assert!(seqs.len() as u64 >= least, "{least}: {seqs:?}");
                assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
                if least == FILES {
                    return;
                }
            }
        });
        (0..FILES).for_each(|_| write_alone(&writer, &clock, "one"));
        reader.join().unwrap();
    });
    until_put_away(dir.path(), 1..=FILES);
    assert_eq!(chain(dir.path()).len() as u64, FILES);
}

/// The file with line `seq`, which is closed and put away.
fn file_of(dir: &Path, seq: u64) -> PathBuf {
    dir.join(format!("denials-{seq:012}.jsonl.gz"))
}
