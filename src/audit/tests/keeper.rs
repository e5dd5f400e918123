//! Closed files: compressed, listed, removed in time; and the crashes between.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::*;
use crate::evidence::{Exhibit, Kind, Shelf};
use crate::text::sha256_hex;

/// Something that a crash leaves half done.
type Step<'a> = &'a dyn Fn(&Path);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Each record a file, kept for thirty days.
fn month(config: &mut Config) {
    (config.rotate_size, config.retain) = (1, Some(30 * DAY));
}

fn exhibit(content: &str) -> Exhibit {
    let sha256 = Sha256::digest(content).into();
    Exhibit { sha256, kind: Kind::File, content: content.as_bytes().to_vec().into() }
}

/// Writes a record of now that names `content`, in a file of its own.
#[track_caller]
fn write_naming(writer: &Writer, clock: &ManualClock, content: &str) {
    let mut record = Record { time: clock.wall(), ..full() };
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(content.as_bytes())), None);
    let closed = writer.health().segments_closed;
    // A notice of the keeper's may be closed beside it.
    block_on(writer.write(record, vec![exhibit(content)])).unwrap();
    until("it is closed", || writer.health().segments_closed > closed);
}

fn is_kept(dir: &Path, content: &str) -> bool {
    Shelf::of(dir).path(Kind::File, &sha256_hex(content.as_bytes())).exists()
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.filter(|name| name.starts_with("denials-")).collect()
}

fn put_away(seqs: impl IntoIterator<Item = u64>) -> BTreeSet<String> {
    let both = |seq| [format!("denials-{seq:012}.jsonl.gz"), format!("denials-{seq:012}.evidence")];
    seqs.into_iter().flat_map(both).collect()
}

#[track_caller]
fn until_put_away(dir: &Path, seqs: impl IntoIterator<Item = u64>) {
    let expected = put_away(seqs);
    until("the closed files are put away", || names(dir) == expected);
}

fn unpacked(path: &Path) -> Vec<u8> {
    let mut lines = Vec::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut lines).unwrap();
    lines
}

/// A log of three closed files, put away.
fn three(dir: &Path) -> Vec<Content> {
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir, clock.clone(), |config| config.rotate_size = 1).unwrap();
    ["one", "two", "one"].iter().for_each(|content| write_naming(&writer, &clock, content));
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
    let unpack = |dir: &Path| fs::write(file(dir, "jsonl"), unpacked(&file(dir, "jsonl.gz"))).unwrap();
    let unfinished = |dir: &Path| fs::rename(file(dir, "jsonl.gz"), file(dir, "jsonl.gz.tmp")).unwrap();
    let half = |dir: &Path| fs::write(file(dir, "evidence.tmp"), "2026").unwrap();
    let unlisted = |dir: &Path| fs::remove_file(file(dir, "evidence")).unwrap();
    let states: [&[Step]; 6] = [
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
fn a_crash_while_a_file_is_removed_neither_brings_it_back_nor_leaves_its_evidence() {
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
fn lines_go_when_they_are_old_enough_and_the_log_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    for day in 0..40 {
        if day > 0 {
            clock.advance(DAY);
        }
        write_naming(&writer, &clock, &format!("day {day}"));
        until("all that is old is gone", || {
            let first = segment::list(dir.path()).unwrap().remove(0);
            // Gone since it was listed, perhaps.
            let Ok(mut lines) = first.lines() else { return false };
            let Ok(segment::Found::Line(line)) = lines.next() else { return false };
            let age = clock.wall().since(Content::parse(line).unwrap().time());
            first.first_seq == 1 && day < 30 || day >= 30 && age < 30 * DAY
        });
    }
    until("the evidence has followed", || (0..10).all(|day| !is_kept(dir.path(), &format!("day {day}"))));
    drop(writer);
    let contents = rest_of_chain(dir.path());
    let mut pruned = contents.iter().filter_map(|content| match content {
        Content::Notice(Notice::Pruned(pruned)) => Some(pruned),
        _ => None,
    });
    let last = pruned.next_back().unwrap();
    assert_eq!(last.last_seq, contents[0].seq() - 1, "the log begins where it says that it was cut");
    assert!((10..40).all(|day| is_kept(dir.path(), &format!("day {day}"))));
}

#[test]
fn evidence_stays_as_long_as_any_file_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    ["old", "closed", "rotated", "written"].iter().for_each(|content| {
        write_naming(&writer, &clock, content);
    });
    clock.advance(20 * DAY);
    write_naming(&writer, &clock, "rotated");
    write_naming(&writer, &clock, "closed");
    until_put_away(dir.path(), 1..=6);
    drop(writer);
    // As another program rotates, which keeps files for longer.
    fs::rename(file_of(dir.path(), 5), dir.path().join("denials.jsonl.1.gz")).unwrap();
    fs::remove_file(dir.path().join("denials-000000000005.evidence")).unwrap();
    clock.advance(15 * DAY);
    let writer = open_at(dir.path(), clock.clone(), |config| config.retain = Some(30 * DAY)).unwrap();
    let mut record = Record { time: clock.wall(), ..full() };
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(b"written")), None);
    block_on(writer.write(record, vec![exhibit("written")])).unwrap();
    until("the old files and what only they named are gone", || {
        names(dir.path()) == put_away([6]) && !is_kept(dir.path(), "old")
    });
    for content in ["closed", "rotated", "written"] {
        assert!(is_kept(dir.path(), content), "{content}");
    }
    assert!(dir.path().join("denials.jsonl.1.gz").exists());
}

#[test]
fn the_evidence_of_lines_that_somebody_else_has_moved_away_stays() {
    let (dir, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), month).unwrap();
    write_naming(&writer, &clock, "moved");
    write_naming(&writer, &clock, "removed");
    until_put_away(dir.path(), 1..=2);
    fs::rename(file_of(dir.path(), 1), archive.path().join("a.gz")).unwrap();
    clock.advance(31 * DAY);
    write_naming(&writer, &clock, "new");
    until("the old one is removed", || !is_kept(dir.path(), "removed"));
    assert!(is_kept(dir.path(), "moved") && is_kept(dir.path(), "new"));
}

#[test]
fn without_a_time_to_keep_nothing_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |config| config.rotate_size = 1).unwrap();
    write_naming(&writer, &clock, "old");
    clock.advance(10_000 * DAY);
    write_naming(&writer, &clock, "new");
    until_put_away(dir.path(), 1..=2);
    drop(writer);
    assert_eq!(chain(dir.path()).len(), 2);
    assert!(is_kept(dir.path(), "old"));
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
        (0..FILES).for_each(|_| write_naming(&writer, &clock, "one"));
        reader.join().unwrap();
    });
    until_put_away(dir.path(), 1..=FILES);
    assert_eq!(chain(dir.path()).len() as u64, FILES);
}

/// The file with line `seq`, which is closed and put away.
fn file_of(dir: &Path, seq: u64) -> PathBuf {
    dir.join(format!("denials-{seq:012}.jsonl.gz"))
}

/// All lines that are left, found to follow one another.
#[track_caller]
fn rest_of_chain(dir: &Path) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for segment in segment::list(dir).unwrap() {
        let mut lines = segment.lines().unwrap();
        while let segment::Found::Line(line) = lines.next().unwrap() {
            checked_hash(line).unwrap();
            let content = Content::parse(line).unwrap();
            assert!(contents.last().is_none_or(|last| content.seq() == last.seq() + 1));
            contents.push(content);
        }
    }
    contents
}
