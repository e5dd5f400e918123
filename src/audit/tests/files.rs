//! The chain over files: closed by size and by age, changed by others, cut by a crash.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use super::*;
use crate::types::LogId;

/// The names in `dir` that belong to the log, and how long their files are. Whether one has been
/// compressed already is not reported.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
    let logs = entries.filter(|entry| segment::is_segment(&entry.path()));
    let mut files: Vec<_> = logs
        .filter_map(|entry| {
            Some((entry.file_name().into_string().unwrap(), entry.metadata().ok()?.len()))
        })
        .map(|(name, length)| (name.trim_end_matches(".gz").to_owned(), length))
        .collect();
    files.sort();
    files.dedup_by(|one, other| one.0 == other.0);
    files
}

fn names(dir: &Path) -> Vec<String> {
    files(dir).into_iter().map(|(name, _)| name).collect()
}

fn small(config: &mut Config) {
    config.rotate_size = 1;
}

/// A log of `count` closed files of one record each, none of them compressed, and an empty one.
fn closed(dir: &Path, count: u64) {
    let writer = open_with(dir, small).unwrap();
    for seq in 1..=count {
        assert_eq!(write(&writer), seq);
    }
    until("the last is closed", || writer.health().segments_closed == count);
    drop(writer);
    for segment in segment::list(dir).unwrap() {
        if segment.path.extension().is_some_and(|extension| extension == "gz") {
            let mut lines = Vec::new();
            let file = fs::File::open(&segment.path).unwrap();
            flate2::read::MultiGzDecoder::new(file).read_to_end(&mut lines).unwrap();
            fs::write(segment.path.with_extension(""), lines).unwrap();
            fs::remove_file(segment.path).unwrap();
        }
    }
}

#[test]
fn f15_a_large_file_is_closed_and_the_chain_goes_on_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    closed(dir.path(), 2);
    let writer = open_with(dir.path(), small).unwrap();
    assert_eq!(write(&writer), 3);
    until("it is closed", || writer.health().segments_closed == 1);
    drop(writer);
    let expected =
        ["denials-000000000001.jsonl", "denials-000000000002.jsonl", "denials-000000000003.jsonl"];
    assert_eq!(names(dir.path())[..3], expected);
    assert_eq!(files(dir.path())[3], (FILE_NAME.to_owned(), 0));
    assert_eq!(chain(dir.path()).len(), 3);
    assert_eq!(read_head(dir.path()).unwrap().unwrap().0.seq, 3);
}

#[test]
fn a_file_is_closed_when_its_first_line_is_old_and_an_empty_one_never() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |_| {}).unwrap();
    clock.advance(Duration::from_secs(30 * 60 * 60));
    let mut late = minimal();
    late.time = clock.wall();
    block_on(writer.write(late.clone(), Vec::new())).unwrap();
    clock.advance(Duration::from_secs(23 * 60 * 60));
    block_on(writer.write(late.clone(), Vec::new())).unwrap();
    assert_eq!(names(dir.path()), [FILE_NAME]);
    clock.advance(Duration::from_secs(60 * 60));
    late.time = clock.wall();
    // Into this file or the next: the writer may have seen first what time it is.
    block_on(writer.write(late, Vec::new())).unwrap();
    until("it is closed", || writer.health().segments_closed == 1);
    assert_eq!(names(dir.path()), ["denials-000000000001.jsonl", FILE_NAME]);
    assert_eq!(chain(dir.path()).len(), 3);
}

#[test]
fn an_empty_file_is_never_closed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    drop(open_at(dir.path(), clock.clone(), small).unwrap());
    clock.advance(Duration::from_secs(400 * 24 * 60 * 60));
    drop(open_at(dir.path(), clock, small).unwrap());
    assert_eq!(files(dir.path()), [(FILE_NAME.to_owned(), 0)]);
}

#[test]
fn a_closed_file_is_never_overwritten() {
    for taken in ["denials-000000000001.jsonl", "denials-000000000001.jsonl.gz"] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(taken), "of another program\n").unwrap();
        let writer = open_with(dir.path(), small).unwrap();
        assert_eq!((write(&writer), write(&writer)), (1, 2));
        assert_eq!(writer.health().segments_closed, 0);
        assert_eq!(seqs(dir.path()), [1, 2]);
        assert_eq!(fs::read(dir.path().join(taken)).unwrap(), b"of another program\n");
    }
}

/// What a crash leaves between any two steps of closing a file, made by hand.
#[test]
fn a_crash_while_a_file_is_being_closed_costs_nothing() {
    let renamed = |dir: &Path| fs::remove_file(dir.join(FILE_NAME)).unwrap();
    let headless = |dir: &Path| fs::remove_file(dir.join(HEAD_NAME)).unwrap();
    let old_head = |dir: &Path| {
        let line = fs::read(dir.join("denials-000000000001.jsonl")).unwrap();
        let hash = checked_hash(line.trim_ascii_end()).unwrap().to_owned();
        crate::audit::segment::write_head(dir, &Head { hash, seq: 1 }, LogId([1; 16]), None, NOON)
            .unwrap();
    };
    let unfinished = |dir: &Path| fs::write(dir.join("head.json.tmp"), "{").unwrap();
    let compressed = |dir: &Path| {
        let plain = dir.join("denials-000000000002.jsonl");
        let file = fs::File::create(plain.with_added_extension("gz")).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::default());
        gzip.write_all(&fs::read(&plain).unwrap()).unwrap();
        gzip.finish().unwrap();
        fs::remove_file(plain).unwrap();
    };
    type Step<'a> = &'a dyn Fn(&Path);
    let states: [&[Step<'_>]; 6] = [
        &[&renamed, &old_head],
        &[&renamed, &headless],
        &[&old_head],
        &[&headless, &unfinished],
        &[&renamed, &headless, &compressed],
        &[&old_head, &compressed],
    ];
    for (number, state) in states.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        closed(dir.path(), 2);
        state.iter().for_each(|step| step(dir.path()));
        let writer = open(dir.path()).unwrap();
        assert_eq!(write(&writer), 3, "state {number}");
        assert_eq!(chain(dir.path()).len(), 3, "state {number}");
    }
}

#[test]
fn the_chain_goes_on_when_all_files_have_been_moved_away() {
    let (dir, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let writer = open(dir.path()).unwrap();
    assert_eq!((write(&writer), write(&writer)), (1, 2));
    drop(writer);
    fs::rename(dir.path().join(FILE_NAME), archive.path().join(FILE_NAME)).unwrap();
    assert_eq!(write(&open(dir.path()).unwrap()), 3);
    fs::rename(dir.path().join(FILE_NAME), archive.path().join("denials.jsonl.1")).unwrap();
    assert_eq!(chain(archive.path()).len(), 3);
}

#[test]
fn lines_that_a_later_version_has_written_are_not_taken_for_torn_ones() {
    let dir = tempfile::tempdir().unwrap();
    write(&open(dir.path()).unwrap());
    let file = dir.path().join(FILE_NAME);
    let mut head = read_head(dir.path()).unwrap().unwrap().0;
    for what in
        ["\"event\":\"moved\"", "\"event\":\"denied\",\"id\":\"x\",\"reason\":\"unheard_of\""]
    {
        let canonical = format!("{{{what},\"prev\":\"{}\",\"seq\":{}", head.hash, head.seq + 1);
        let hash = crate::types::sanitize::sha256_hex(format!("{canonical}}}").as_bytes());
        let mut log = fs::OpenOptions::new().append(true).open(&file).unwrap();
        writeln!(log, "{canonical},\"hash\":\"{hash}\"}}").unwrap();
        head = Head { hash, seq: head.seq + 1 };
    }
    let before = fs::read(&file).unwrap();
    assert_eq!(write(&open(dir.path()).unwrap()), 4);
    assert!(fs::read(&file).unwrap().starts_with(&before));
    assert!(!dir.path().join("denials.torn").exists());
}

#[test]
fn a_head_that_cannot_be_read_is_ignored() {
    for damaged in ["", "{", r#"{"hash":"x","seq":9,"time":"2026-11-20T12:00:00Z"}"#] {
        let dir = tempfile::tempdir().unwrap();
        write(&open(dir.path()).unwrap());
        fs::write(dir.path().join(HEAD_NAME), damaged).unwrap();
        assert_eq!(write(&open(dir.path()).unwrap()), 2, "{damaged:?}");
        chain(dir.path());
    }
}

/// Each is refused, and counted: only the writer itself closes the file.
#[test]
fn f15_a_file_that_another_program_has_changed_is_not_written_on() {
    let truncated = |dir: &Path| {
        fs::copy(dir.join(FILE_NAME), dir.join("denials.jsonl.1")).unwrap();
        fs::OpenOptions::new().write(true).open(dir.join(FILE_NAME)).unwrap().set_len(0).unwrap();
    };
    let renamed = |dir: &Path| {
        fs::rename(dir.join(FILE_NAME), dir.join("denials.jsonl.1")).unwrap();
        fs::write(dir.join(FILE_NAME), "").unwrap();
    };
    let changes: [&dyn Fn(&Path); 2] = [&truncated, &renamed];
    for (change, what) in changes.into_iter().zip(["truncated", "renamed"]) {
        let dir = tempfile::tempdir().unwrap();
        let writer = open(dir.path()).unwrap();
        assert_eq!((write(&writer), write(&writer)), (1, 2));
        change(dir.path());
        until("it is noticed", || block_on(writer.write(minimal(), Vec::new())).is_err());
        let failing = writer.health().failing.unwrap();
        assert!(failing.contains("another program has ") && failing.contains(what), "{failing}");
        drop(writer);
        assert_eq!(fs::read(dir.path().join(FILE_NAME)).unwrap(), b"", "{what}");
        // The next start goes on with the chain.
        let next = chain(dir.path()).len() as u64 + 1;
        assert_eq!(write(&open(dir.path()).unwrap()), next, "{what}");
        assert_eq!(chain(dir.path()).len() as u64, next, "{what}");
    }
}
