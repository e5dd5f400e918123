//! Evidence: there before the record that names it, and no longer than it is named.

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::evidence::{Blob, BlobStore, Found, Kind};
use crate::types::sanitize::{hex, sha256_hex};

fn blob(content: &'static [u8]) -> Blob {
    Blob { sha256: Sha256::digest(content).into(), kind: Kind::File, content: content.into() }
}

/// A record that names `content` as its file, and no capture.
fn naming(content: &[u8]) -> Record {
    let mut record = full();
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(content)), None);
    record
}

fn is_kept(dir: &Path, blob: &Blob) -> bool {
    let found = BlobStore::of(dir).get(blob.kind, &hex(&blob.sha256)).unwrap();
    match found {
        Found::Content(content) => content == blob.content,
        Found::Missing => false,
        Found::Damaged(why) => panic!("{why}"),
    }
}

fn name(blob: &Blob) -> BlobName {
    (blob.kind, blob.sha256)
}

#[test]
fn what_a_record_names_is_kept_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    let file = blob(b"user-agent: *\n");
    block_on(writer.write(naming(&file.content), vec![file.clone()])).unwrap();
    assert!(is_kept(dir.path(), &file));
    assert_eq!(writer.health().evidence_errors, 0);
}

#[test]
fn a_record_names_its_file_and_both_captures() {
    let mut record = full();
    let robots = record.robots.as_mut().unwrap();
    robots.failed_capture = Some(sha256_hex(b"failed"));
    let names: Vec<_> = record.blobs().map(|(kind, sha256)| (kind, hex(&sha256))).collect();
    let expected = [(Kind::File, &b""[..]), (Kind::Capture, b"{}"), (Kind::Capture, b"failed")];
    assert_eq!(names, expected.map(|(kind, content)| (kind, sha256_hex(content))));
    assert_eq!(minimal().blobs().count(), 0);
}

#[test]
fn evidence_that_cannot_be_kept_costs_no_record_and_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let in_the_way = dir.path().join("evidence");
    std::fs::write(&in_the_way, "").unwrap();
    let writer = open_with(dir.path(), |config| config.on_failure = OnFailure::Stop).unwrap();
    let file = blob(b"user-agent: *\n");
    for errors in 1..=2 {
        block_on(writer.write(naming(&file.content), vec![file.clone()])).unwrap();
        let health = writer.health();
        assert!(health.evidence_errors >= errors, "{health:?}");
        assert!(health.failing.unwrap().starts_with("cannot keep evidence: in "));
    }
    assert!(!writer.is_stopped(), "the record says what was decided");
    std::fs::remove_file(&in_the_way).unwrap();
    until("it is kept without another record", || writer.health().failing.is_none());
    assert!(is_kept(dir.path(), &file));
    assert_eq!(seqs(dir.path()), [1, 2]);
}

#[test]
fn what_no_line_names_can_be_forgotten_and_comes_back_when_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (used, unused) = (blob(b"used"), blob(b"unused"));
    let writer = open(dir.path()).unwrap();
    block_on(writer.write(naming(&used.content), vec![used.clone(), unused.clone()])).unwrap();
    let handle = writer.handle();
    let forget = || block_on(handle.forget(vec![name(&used), name(&unused)], 1)).unwrap();
    assert_eq!((forget(), forget()), (1, 0));
    assert_eq!([&used, &unused].map(|it| is_kept(dir.path(), it)), [true, false]);
    block_on(writer.write(naming(&unused.content), vec![unused.clone()])).unwrap();
    assert_eq!(forget(), 0);
    assert!(is_kept(dir.path(), &unused));
}

#[test]
fn what_the_file_names_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let used = blob(b"used");
    drop({
        let writer = open(dir.path()).unwrap();
        block_on(writer.write(naming(&used.content), vec![used.clone()])).unwrap();
        writer
    });
    let writer = open(dir.path()).unwrap();
    assert_eq!(block_on(writer.handle().forget(vec![name(&used)], 1)).unwrap(), 0);
    assert!(is_kept(dir.path(), &used));
}

#[test]
fn nothing_is_forgotten_by_an_account_that_is_older_than_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let used = blob(b"used");
    let writer = open_with(dir.path(), |config| config.rotate_size = 1).unwrap();
    let mut handle = writer.handle();
    let before = *handle.active().borrow_and_update();
    block_on(writer.write(naming(&used.content), vec![used.clone()])).unwrap();
    block_on(handle.active().changed()).unwrap();
    let outdated = block_on(handle.forget(vec![name(&used)], before)).unwrap_err();
    assert!(matches!(outdated, ForgetError::Outdated));
    assert!(is_kept(dir.path(), &used));
    let active = *handle.active().borrow();
    assert_eq!(block_on(handle.forget(vec![name(&used)], active)).unwrap(), 1);
}

/// Settings that hold from now on, and their evidence.
fn settings(content: &'static [u8]) -> (Notice, Vec<Blob>) {
    let blob = Blob { kind: Kind::Settings, ..blob(content) };
    let digest = hex(&blob.sha256);
    let notice = Notice::SettingsChanged(SettingsChanged {
        changes: Vec::new(),
        contents: Vec::new(),
        digest: digest.clone(),
        event: SettingsEvent::It,
        node: None,
        omitted: None,
        prev: String::new(),
        seq: 0,
        settings: Some(digest),
        time: NOON,
        who: ReloadTrigger::Hup,
    });
    (notice, vec![blob])
}

#[test]
fn settings_are_kept_before_their_notice_and_that_before_any_later_record() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    for content in [&b"{}"[..], b"{\"a\":1}", b"{}"] {
        let (notice, blobs) = settings(content);
        assert!(writer.queue_notice_with(notice, blobs.clone()));
        write(&writer);
        assert!(is_kept(dir.path(), &blobs[0]));
    }
    let words = |line: &Content| match line {
        Content::Notice(notice) => notice.word(),
        Content::Record(record) => record.event.word(),
    };
    let lines = chain(dir.path());
    assert_eq!(lines.iter().map(words).collect::<Vec<_>>(), ["settings", "denied"].repeat(3));
    assert_eq!(lines[0].blobs(), [name(&settings(b"{}").1[0])]);
}

#[test]
fn settings_that_cannot_be_kept_cost_no_line_and_are_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let in_the_way = dir.path().join("evidence");
    std::fs::write(&in_the_way, "").unwrap();
    let writer = open(dir.path()).unwrap();
    let (notice, blobs) = settings(b"{}");
    writer.queue_notice_with(notice, blobs.clone());
    write(&writer);
    assert_eq!(seqs(dir.path()), [1, 2]);
    std::fs::remove_file(&in_the_way).unwrap();
    until("they are kept", || writer.health().failing.is_none());
    assert!(is_kept(dir.path(), &blobs[0]));
}

#[test]
fn the_last_settings_are_found_in_whatever_segment_they_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let before = |dir: &Path| open(dir).unwrap().settings_before();
    assert_eq!(before(dir.path()), None);
    for (turn, is_rotated) in [false, true, false].into_iter().enumerate() {
        let writer = open(dir.path()).unwrap();
        for content in [&b"{}"[..], [&b"[0]"[..], b"[1]", b"[2]"][turn]] {
            let (notice, blobs) = settings(content);
            writer.queue_notice_with(notice, blobs);
            write(&writer);
        }
        drop(writer);
        let expected = format!("[{turn}]").into_bytes();
        assert_eq!(before(dir.path()), Some(expected.clone()), "in the file that is written");
        if is_rotated {
            // Two segments more, without settings.
            let writer = open_with(dir.path(), |config| config.rotate_size = 1).unwrap();
            assert_eq!([write(&writer), write(&writer)].len(), 2);
            drop(writer);
            assert_eq!(before(dir.path()), Some(expected), "in a segment before");
        }
    }
}

#[test]
fn a_notice_is_a_line_of_the_chain_and_a_desk_keeps_no_writer() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    write(&writer);
    let mut handle = writer.handle();
    let notice = Notice::Pruned(Pruned {
        event: PrunedEvent::It,
        last_hash: "0".repeat(64),
        last_seq: 0,
        node: None,
        prev: String::new(),
        seq: 0,
        time: NOON,
    });
    assert_eq!(block_on(handle.note(notice.clone())).unwrap(), Written { seq: 2 });
    assert_eq!(writer.health().written, 1, "it is no record");
    assert!(matches!(chain(dir.path())[1], Content::Notice(Notice::Pruned(_))));
    drop(writer);
    assert!(matches!(block_on(handle.note(notice)), Err(WriteError::Stopped)));
    assert!(block_on(handle.active().changed()).is_err());
}
