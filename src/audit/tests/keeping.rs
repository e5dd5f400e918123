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
    let forget = || block_on(handle.forget(vec![name(&used), name(&unused)], 0)).unwrap();
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
    assert_eq!(block_on(writer.handle().forget(vec![name(&used)], 0)).unwrap(), 0);
    assert!(is_kept(dir.path(), &used));
}

#[test]
fn nothing_is_forgotten_by_an_account_that_is_older_than_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let used = blob(b"used");
    let writer = open_with(dir.path(), |config| config.rotate_size = 1).unwrap();
    let mut handle = writer.handle();
    let before = *handle.files().borrow_and_update();
    block_on(writer.write(naming(&used.content), vec![used.clone()])).unwrap();
    block_on(handle.files().changed()).unwrap();
    let outdated = block_on(handle.forget(vec![name(&used)], before)).unwrap_err();
    assert!(matches!(outdated, ForgetError::Outdated));
    assert!(is_kept(dir.path(), &used));
    let files = *handle.files().borrow();
    assert_eq!(block_on(handle.forget(vec![name(&used)], files)).unwrap(), 1);
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
    assert!(block_on(handle.files().changed()).is_err());
}
