//! The evidence of records as a web archive, read back by warcio.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use courtesy::audit::evidence::{Answer, Blob, BlobStore, Body, CaptureRecord, Failure, Kind};
use courtesy::audit::{Record, Robots};
use courtesy::types::sanitize::{digest, hex, sha256_hex};
use serde_json::{Value, json};

use crate::audit_cli::support::{Log, NOON, audit, ended, record, succeeds};
use crate::evidence::warcio::{python, read_back};

const FILE: &str = "User-agent: *\nDisallow: /private/\n";

/// Puts a fetch of `url` on the blob_store, with the file that it brought, if it did; gives its name.
fn fetched(log: &Log, url: &str, file: Option<&str>) -> String {
    let (status, head) = match file {
        Some(_) => (200, "HTTP/1.1 200 OK\r\nserver: a\r\n"),
        None => (503, "HTTP/1.1 503 Service Unavailable\r\n"),
    };
    let capture = CaptureRecord {
        answers: vec![Answer {
            head: head.into(),
            head_cut: false,
            peer: None,
            request: None,
            status,
            url: url.into(),
            via: None,
        }],
        asked: url.into(),
        body: file.map(|file| Body {
            cut: false,
            bytes: file.len() as u64,
            sha256: sha256_hex(file.as_bytes()),
        }),
        failure: file.is_none().then(|| Failure {
            parent_status: None,
            text: "status 503".into(),
            via: None,
            word: "status".into(),
        }),
        fetched_at: NOON,
        user_agent: None,
    };
    let (blob_store, capture) = (BlobStore::of(log.dir.path()), capture.seal());
    if let Some(file) = file {
        let sha256 = digest(&sha256_hex(file.as_bytes())).unwrap();
        blob_store
            .put(&Blob { sha256, kind: Kind::File, content: file.to_owned().into() })
            .unwrap();
    }
    blob_store
        .put(&Blob { sha256: capture.sha256, kind: Kind::Capture, content: capture.json })
        .unwrap();
    hex(&capture.sha256)
}

/// The `n`th of the series, which names captures.
fn naming(n: u64, capture: Option<&str>, failed: Option<&str>) -> Record {
    let of = record(n);
    let robots = Robots {
        capture: capture.map(str::to_owned),
        failed_capture: failed.map(str::to_owned),
        ..Robots::clone(&of.robots.unwrap())
    };
    Record { robots: Some(robots.into()), ..of }
}

fn column(records: &[Value], name: &str) -> Value {
    records.iter().map(|record| record[name].clone()).collect()
}

/// Standard output of an export to an archive there.
fn export(log: &Log, archive: &Path, more: &[&str]) -> String {
    let arguments = [&["export", "--output", archive.to_str().unwrap()], more].concat();
    succeeds(&mut audit(log.dir.path(), &arguments))
}

#[test]
fn the_archive_has_each_capture_of_matching_records_once() {
    let mut log = Log::new();
    let one = fetched(&log, "http://one.example/robots.txt", Some(FILE));
    let busy = fetched(&log, "http://two.example/robots.txt", None);
    let other =
        fetched(&log, "http://three.example/robots.txt", Some("User-agent: *\nDisallow: /\n"));
    log.write([
        naming(1, Some(&one), None),
        naming(3, Some(&one), Some(&busy)),
        Record { robots: None, ..record(5) },
        naming(7, None, Some(&busy)),
        naming(2, Some(&other), None),
    ]);
    // Odd numbers are those of Wget.
    let wget = ["--agent", "wget"];
    for name in ["evidence.warc", "evidence.warc.gz"] {
        let archive = log.dir.path().join(name);
        assert_eq!(export(&log, &archive, &wget), "");
        assert_eq!(archive.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let records = read_back(&archive);
        assert_eq!(
            column(&records, "type"),
            json!(["warcinfo", "response", "response", "metadata"])
        );
        let uris = [None, Some("one"), Some("two"), Some("two")];
        let uris = uris.map(|host| host.map(|host| format!("http://{host}.example/robots.txt")));
        assert_eq!(column(&records, "uri"), json!(uris));
        assert_eq!((&records[1]["payload"], &records[2]["status"]), (&json!(FILE), &json!("503")));
        assert!(python(&["-m", "warcio.cli", "check", archive.to_str().unwrap()]).status.success());
    }
    let plain = fs::read(log.dir.path().join("evidence.warc")).unwrap();
    let packed = fs::read(log.dir.path().join("evidence.warc.gz")).unwrap();
    assert!(plain.starts_with(b"WARC/1.1\r\n") && packed.starts_with(&[0x1f, 0x8b]));
    let all = log.dir.path().join("all");
    export(&log, &all, &["--format", "warc"]);
    assert_eq!(read_back(&all).len(), 5);
    let printed = succeeds(&mut audit(log.dir.path(), &["export", "--format", "warc"]));
    assert_eq!(printed.matches("WARC-Type: response").count(), 3);
}

#[test]
fn missing_or_changed_evidence_is_reported_and_the_rest_written() {
    let mut log = Log::new();
    let blob_store = BlobStore::of(log.dir.path());
    let whole = fetched(&log, "http://whole.example/robots.txt", Some(FILE));
    let without_file = fetched(&log, "http://without.example/robots.txt", Some("gone"));
    let missing = fetched(&log, "http://missing.example/robots.txt", Some("kept"));
    let changed = fetched(&log, "http://changed.example/robots.txt", None);
    fs::remove_file(blob_store.path(Kind::File, &sha256_hex(b"gone"))).unwrap();
    fs::remove_file(blob_store.path(Kind::Capture, &missing)).unwrap();
    let path = blob_store.path(Kind::Capture, &changed);
    fs::write(&path, [&fs::read(&path).unwrap()[..], b"behind the end"].concat()).unwrap();
    log.write([
        naming(1, Some(&without_file), None),
        naming(2, Some(&missing), Some(&changed)),
        naming(3, Some("no digest"), None),
        naming(4, Some(&whole), None),
    ]);
    let archive = log.dir.path().join("evidence.warc.gz");
    let arguments = ["export", "--output", archive.to_str().unwrap()];
    let (code, _, said) = ended(&mut audit(log.dir.path(), &arguments));
    assert_eq!(code, Some(1), "{said}");
    let said: Vec<_> = said.lines().collect();
    for (line, (number, what, name)) in said.iter().zip([
        (1, "missing", sha256_hex(b"gone").as_str()),
        (2, "missing", &missing),
        (2, "more bytes follow", &changed),
        (3, "no SHA-256", "no digest"),
    ]) {
        assert!(line.starts_with(&format!("warning: number {number} (")), "{line}");
        assert!(line.contains(what) && line.contains(name), "{line}");
    }
    assert_eq!(said.len(), 4, "{said:?}");
    let records = read_back(&archive);
    assert_eq!(column(&records, "truncated"), json!([null, "unspecified", null]));
    assert_eq!(column(&records, "payload").as_array().unwrap()[1..], [json!(""), json!(FILE)]);
    let (code, _, _) = ended(&mut audit(log.dir.path(), &["verify"]));
    assert_eq!(code, Some(1), "verify finds it, too");
}
