//! `courtesy audit report` as it is called: on a log with a closed segment, in every form.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use courtesy::audit::{Content, Head, Record};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

const LINES: u64 = 40;

/// Ten records a day from 2026-11-01 on, of two origins.
fn record(number: u64) -> Record {
    let host = if number.is_multiple_of(4) { "b.example.org" } else { "a.example.com" };
    let time = format!("2026-11-{:02}T{:02}:00:00.000000Z", 1 + number / 10, number % 10);
    serde_json::from_value(json!({
        "agent": "ExampleBot", "agent_source": "user_agent",
        "client": { "address": "192.0.2.1", "name": null },
        "event": "denied", "exemption": null, "group": { "line": 1, "token": "*" },
        "id": format!("{number:026}"), "method": "GET", "origin": format!("https://{host}"),
        "path_seen": true, "prev": "",
        "profile": { "name": "rfc9309", "settings": {}, "version": 1 },
        "reason": "disallow_rule", "robots": null,
        "rule": { "directive": "disallow", "line": 7, "pattern": "/private/" },
        "seq": 0, "time": time, "url": format!("https://{host}/private/{number}"), "user_agent": "ExampleBot/1.0",
    }))
    .expect("the fields of a record")
}

/// A log of which the first half is closed and compressed.
fn log(dir: &Path) -> Head {
    let mut head = Head::genesis();
    let mut push = |numbers: std::ops::Range<u64>| {
        let mut lines = Vec::new();
        numbers.for_each(|number| head.push(Content::Record(Box::new(record(number))), &mut lines));
        lines
    };
    let closed = fs::File::create(dir.join("denials-000000000001.jsonl.gz")).unwrap();
    let mut closed = GzEncoder::new(closed, Compression::default());
    closed.write_all(&push(0..LINES / 2)).unwrap();
    closed.finish().unwrap();
    fs::write(dir.join("denials.jsonl"), push(LINES / 2..LINES)).unwrap();
    head
}

fn report(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .args(["audit", "report", "--dir"])
        .arg(dir)
        .args(args)
        .env_remove("COURTESY_CONFIG")
        .output()
        .expect("it starts")
}

#[track_caller]
fn json_of(dir: &Path, args: &[&str]) -> Value {
    let output = report(dir, &[&["--format", "json"], args].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_report_is_of_all_segments_and_is_tied_to_the_head_of_the_chain() {
    let dir = tempfile::tempdir().unwrap();
    let head = log(dir.path());
    let json = json_of(dir.path(), &[]);
    assert_eq!(json["records"]["all"], LINES);
    assert_eq!(json["log"]["head"], json!({ "hash": head.hash, "seq": LINES }));
    assert_eq!(json["by_origin"]["rows"][0], json!({ "origin": "https://a.example.com", "records": 30 }));
    assert_eq!(json["missing"]["absent_lines"], 0);
}

#[test]
fn period_origin_and_length_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let head = log(dir.path());
    let day = json_of(dir.path(), &["--since", "2026-11-02", "--until", "2026-11-03"]);
    assert_eq!(day["records"]["all"], 20, "the last day counts to its end");
    assert_eq!(day["log"]["head"]["hash"], head.hash);
    assert_eq!(day["missing"]["absent_lines"], 0);
    let origin = json_of(dir.path(), &["--origin", "*.example.org"]);
    assert_eq!((&origin["records"]["all"], &origin["decided"]), (&json!(10), &Value::Null));
    assert_eq!(origin["period"]["origins"], json!(["*.example.org"]));
    let top = json_of(dir.path(), &["--top", "1"]);
    assert_eq!(
        (top["by_origin"]["rows"].as_array().unwrap().len(), &top["by_origin"]["others"]),
        (1, &json!(10))
    );
}

#[test]
fn a_segment_that_is_gone_or_damaged_is_said() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path());
    let closed = dir.path().join("denials-000000000001.jsonl.gz");
    let octets = fs::read(&closed).unwrap();
    fs::remove_file(&closed).unwrap();
    assert_eq!(json_of(dir.path(), &[])["missing"]["absent_lines"], LINES / 2);
    fs::write(&closed, &octets[..octets.len() / 2]).unwrap();
    let output = report(dir.path(), &[]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(74), "{complaint}");
    assert!(complaint.contains("denials-000000000001.jsonl.gz"), "{complaint}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("absent"),
        "what could be read is still reported"
    );
}

#[test]
fn a_page_is_written_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let head = log(dir.path());
    let file = dir.path().join("november.html");
    let output = report(dir.path(), &["--output", file.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty());
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains(&head.hash) && page.ends_with("</html>\n"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let nowhere = report(dir.path(), &["--output", "/nonexistent/november.html"]);
    assert_eq!(nowhere.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/nonexistent/november.html"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .args(["audit", "report", "--format", "html", "--dir"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path());
    for args in [["--top", "0"], ["--origin", "http://a b/"], ["--since", "yesterday"], ["--format", "pdf"]] {
        assert_eq!(report(dir.path(), &args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(report(&dir.path().join("none"), &[]).status.code(), Some(69));
}
