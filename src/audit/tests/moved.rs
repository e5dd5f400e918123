//! The directory of the log is moved away while it is written: the log goes on where its path leads.

use std::fs;
use std::os::unix::fs::symlink;

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::evidence::{Blob, BlobStore, Kind};
use crate::types::sanitize::{hex, sha256_hex};

const FILE: &[u8] = b"user-agent: *\n";

/// Writes a record that names [`FILE`], and tells its number.
#[track_caller]
fn write_naming(writer: &Writer) -> u64 {
    let blob = Blob { sha256: Sha256::digest(FILE).into(), kind: Kind::File, content: FILE.into() };
    let mut record = full();
    let robots = record.robots.as_mut().unwrap();
    (robots.sha256, robots.capture) = (Some(sha256_hex(FILE)), None);
    block_on(writer.write(record, vec![blob])).unwrap().seq
}

fn has_evidence(dir: &Path) -> bool {
    BlobStore::of(dir).path(Kind::File, &hex(&Sha256::digest(FILE))).exists()
}

/// What is done to the directory, beside which `old` is free for a name.
type Move<'a> = &'a dyn Fn(&Path, &Path);

#[test]
fn f15_a_directory_that_is_moved_away_is_written_on_at_its_path() {
    let renamed: Move<'_> = &|dir, old| fs::rename(dir, old).unwrap();
    let replaced: Move<'_> = &|dir, old| {
        fs::rename(dir, old).unwrap();
        fs::create_dir(dir).unwrap();
    };
    let removed: Move<'_> = &|dir, _| fs::remove_dir_all(dir).unwrap();
    let link_turned: Move<'_> = &|dir, old| {
        fs::create_dir(old.with_extension("other")).unwrap();
        symlink(old.with_extension("other"), old.with_extension("link")).unwrap();
        fs::rename(fs::canonicalize(dir).unwrap(), old).unwrap();
        let _ = fs::remove_file(dir);
        fs::rename(old.with_extension("link"), dir).unwrap();
    };
    for (number, act) in [renamed, replaced, removed, link_turned].into_iter().enumerate() {
        for is_busy in [true, false] {
            let state = tempfile::tempdir().unwrap();
            let (dir, old) = (state.path().join("audit"), state.path().join("old"));
            let writer = open(&dir).unwrap();
            assert_eq!((write_naming(&writer), write_naming(&writer)), (1, 2));
            until("the head is written down", || read_head(&dir).unwrap().is_some());
            act(&dir, &old);
            if is_busy {
                // The very next record, and what it names.
                assert_eq!(write_naming(&writer), 3, "{number}");
            } else {
                until("it is noticed without traffic", || dir.join(FILE_NAME).exists());
                assert_eq!(write_naming(&writer), 3, "{number}");
            }
            assert_eq!(seqs(&dir), [3], "{number}");
            assert!(has_evidence(&dir), "{number}: what the record names is beside it");
            assert_eq!(writer.health().failing, None);
            assert!(
                matches!(open(&dir), Err(OpenError::Locked(_))),
                "{number}: another could write there"
            );
            drop(writer);
            if old.exists() {
                assert_eq!(seqs(&old), [1, 2], "{number}");
                fs::rename(old.join(FILE_NAME), dir.join("denials.jsonl.1")).unwrap();
                assert_eq!(chain(&dir).len(), 3, "{number}: it is one chain");
            }
        }
    }
}

#[test]
fn a_directory_that_another_process_has_is_not_taken_and_nothing_is_lost() {
    let state = tempfile::tempdir().unwrap();
    let (dir, old) = (state.path().join("audit"), state.path().join("old"));
    let writer = open_with(&dir, |config| config.on_failure = OnFailure::Stop).unwrap();
    write(&writer);
    fs::rename(&dir, &old).unwrap();
    fs::create_dir(&dir).unwrap();
    let lock = fs::File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(write(&writer), 2);
    until("it is noticed", || writer.health().failing.is_some());
    let failing = writer.health().failing.unwrap();
    assert!(
        failing.starts_with("denial records go to a directory that has been moved away: "),
        "{failing}"
    );
    assert!(failing.ends_with("another courtesy uses it"), "{failing}");
    assert!(!writer.is_stopped(), "they are written");
    assert_eq!(seqs(&old), [1, 2]);
    drop(lock);
    until("it goes on in its place", || writer.health().failing.is_none());
    assert_eq!(write(&writer), 3);
    assert_eq!(seqs(&dir), [3]);
}
