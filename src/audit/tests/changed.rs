//! Notices of changed robots.txt files, and their evidence.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::evidence::{Blob, BlobStore, Kind};
use crate::policy::change;
use crate::types::sanitize::sha256_hex;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn blob(content: &str, kind: Kind) -> Blob {
    Blob {
        sha256: Sha256::digest(content).into(),
        kind,
        content: content.as_bytes().to_vec().into(),
    }
}

fn side(content: &str) -> Side {
    Side {
        capture: Some(sha256_hex(format!("capture of {content}").as_bytes())),
        cause: None,
        cut: false,
        failed_capture: None,
        sha256: Some(sha256_hex(content.as_bytes())),
        since: Some(NOON),
        state: RobotsStatus::Rules,
        status: Some(200),
        url_reached: Some("http://example.com/robots.txt".into()),
    }
}

fn changed(from: &str, to: &str, time: Timestamp) -> Changed {
    Changed {
        added: 1,
        agent_asked: "ExampleBot courtesy".into(),
        event: ChangedEvent::It,
        from: side(from).into(),
        kind: change::Kind::Narrower,
        node: None,
        origin: "http://example.com".into(),
        prev: String::new(),
        removed: 0,
        sampled: SampledRequests { examples: vec!["/a".into()], now_denied: 1, seen: 4 },
        seq: 0,
        time,
        to: side(to).into(),
        touched: vec![Touched {
            agents: vec!["*".into()],
            kind: change::Kind::Narrower,
            profile: "rfc9309".into(),
        }],
    }
}

fn note(writer: &Writer, from: &str, to: &str, time: Timestamp) {
    let capture = |content| blob(&format!("capture of {content}"), Kind::Capture);
    let files = [from, to].map(|content| blob(content, Kind::File));
    let blobs = files.into_iter().chain([from, to].map(capture)).collect();
    block_on(writer.note_with(Notice::Changed(changed(from, to, time)), blobs)).unwrap();
}

fn is_kept(dir: &Path, content: &str) -> bool {
    let blob_store = BlobStore::of(dir);
    let capture = sha256_hex(format!("capture of {content}").as_bytes());
    blob_store.path(Kind::File, &sha256_hex(content.as_bytes())).exists()
        && blob_store.path(Kind::Capture, &capture).exists()
}

#[test]
fn a_notice_is_read_as_it_was_written_and_its_evidence_was_kept_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let writer = open(dir.path()).unwrap();
    note(&writer, "one", "two", NOON);
    assert!(is_kept(dir.path(), "one") && is_kept(dir.path(), "two"));
    assert_eq!(writer.health().written, 0, "it is no record");
    let contents = chain(dir.path());
    let [Content::Notice(Notice::Changed(read))] = &contents[..] else { panic!("{contents:?}") };
    let written = changed("one", "two", NOON);
    assert_eq!(
        *read,
        Changed { prev: read.prev.clone(), node: read.node.clone(), seq: 1, ..written }
    );
    assert_eq!(contents[0].blobs().len(), 4);
}

#[test]
fn the_evidence_of_a_notice_goes_with_it_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(NOON);
    let writer = open_at(dir.path(), clock.clone(), |config| {
        (config.rotate_size, config.retain) = (1, Some(30 * DAY));
    })
    .unwrap();
    note(&writer, "one", "two", clock.wall());
    until("it is closed", || writer.health().segments_closed == 1);
    clock.advance(20 * DAY);
    note(&writer, "two", "three", clock.wall());
    until("it is closed", || writer.health().segments_closed == 2);
    assert!(["one", "two", "three"].iter().all(|content| is_kept(dir.path(), content)));
    clock.advance(15 * DAY);
    note(&writer, "three", "four", clock.wall());
    until("the first has gone", || !is_kept(dir.path(), "one"));
    assert!(["two", "three", "four"].iter().all(|content| is_kept(dir.path(), content)));
}

#[test]
fn the_evidence_of_a_notice_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    note(&open(dir.path()).unwrap(), "one", "two", NOON);
    let writer = open(dir.path()).unwrap();
    let names = chain(dir.path())[0].blobs();
    assert_eq!(block_on(writer.handle().forget(names, 1)).unwrap(), 0);
    assert!(is_kept(dir.path(), "one") && is_kept(dir.path(), "two"));
}
