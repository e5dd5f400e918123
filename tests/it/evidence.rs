//! What a denial record names as evidence is on the blob_store, and says how the file came or why not.

use std::time::Duration;

use courtesy::audit::evidence::{BlobStore, CaptureRecord, Found, Kind};
use serde_json::Value;

use crate::testkit::parties::{AGENT, NOW, Origin, Proxy, Script, answer, ok_with};

/// A file by which everything is disallowed.
const NOTHING: &str = "User-agent: *\nDisallow: /\n";

#[track_caller]
fn kept(proxy: &Proxy, kind: Kind, sha256: &Value) -> Vec<u8> {
    let sha256 = sha256.as_str().expect("a digest");
    match BlobStore::of(&proxy.audit_dir())
        .get(kind, sha256)
        .expect("a blob_store that can be read")
    {
        Found::Content(content) => content,
        other => panic!("{sha256}: {other:?}"),
    }
}

#[track_caller]
pub fn capture(proxy: &Proxy, sha256: &Value) -> CaptureRecord {
    serde_json::from_slice(&kept(proxy, Kind::Capture, sha256)).expect("a capture")
}

#[test]
fn a_record_names_the_file_and_the_whole_way_to_it() {
    let origin = Origin::start()
        .on(
            "/robots.txt",
            Script::default().send(answer(301, "Location: /rules\r\nServer: Moved\r\n", "")),
        )
        .on("/rules", ok_with("X-Rules: caf\u{e9}\r\nSet-Cookie: a=b\r\n", NOTHING));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page")).assert_error(403, "http_request_denied");
    let robots = &proxy.record()["robots"];
    assert_eq!(kept(&proxy, Kind::File, &robots["sha256"]), NOTHING.as_bytes());
    let capture = capture(&proxy, &robots["capture"]);
    assert_eq!(
        (capture.asked.as_str(), capture.fetched_at),
        (&*origin.url("/robots.txt"), NOW.millis())
    );
    let body = capture.body.expect("a file");
    assert_eq!((Some(body.sha256.as_str()), body.cut), (robots["sha256"].as_str(), false));
    let [moved, file] = &capture.answers[..] else { panic!("{:?}", capture.answers) };
    assert!(moved.head.starts_with("HTTP/1.1 301 "), "{}", moved.head);
    assert!(moved.head.contains("\r\nserver: Moved\r\n"), "{}", moved.head);
    assert_eq!((file.status, file.url.as_str()), (200, &*origin.url("/rules")));
    // Byte by byte, as ISO 8859-1 shows them.
    assert!(
        file.head.contains("\r\nx-rules: caf\u{c3}\u{a9}\r\nset-cookie: a=b\r\n"),
        "{}",
        file.head
    );
    assert!([moved, file].iter().all(|answer| answer.peer == Some(origin.address().ip())));
}

#[test]
fn a_record_of_an_unreachable_file_names_the_attempt_that_failed() {
    let busy = Script::default().send(answer(503, "Retry-After: 120\r\n", "busy"));
    let origin = Origin::start().on("/robots.txt", busy);
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    let robots = &proxy.record()["robots"];
    assert_eq!((&robots["capture"], &robots["sha256"]), (&Value::Null, &Value::Null));
    let failed = capture(&proxy, &robots["failed_capture"]);
    assert_eq!(failed.failure.expect("no file came").word, "status");
    assert!(failed.body.is_none());
    let head = &failed.answers[0].head;
    assert!(
        head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nretry-after: 120\r\n"),
        "{head}"
    );
}

#[test]
fn a_copy_that_is_confirmed_keeps_the_evidence_of_how_it_came() {
    let origin = Origin::start()
        .on("/robots.txt", ok_with("ETag: \"1\"\r\nCache-Control: max-age=3600\r\n", NOTHING))
        .then("/robots.txt", Script::default().send(answer(304, "ETag: \"1\"\r\n", "")));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    proxy.clock.advance(Duration::from_secs(25 * 60 * 60));
    proxy.get(&origin.url("/page"));
    let records = proxy.records();
    assert_eq!(origin.count("/robots.txt"), 2);
    assert_ne!(records[0]["robots"]["confirmed_at"], records[1]["robots"]["confirmed_at"]);
    assert_eq!(records[0]["robots"]["capture"], records[1]["robots"]["capture"]);
    assert_eq!(capture(&proxy, &records[1]["robots"]["capture"]).answers[0].status, 200);
}

#[test]
fn query_values_stay_out_of_the_log_where_the_setting_says_so() {
    let origin = Origin::with_robots(NOTHING);
    let proxy = Proxy::with(|settings| settings.audit.redact_query = true);
    let page = origin.url("/page?token=secret&token=secret&b");
    let response = proxy.exchange("GET", &page, &format!("User-Agent: {AGENT}\r\n"));
    // Whoever asked is told what was refused.
    assert!(response.text().contains("secret"));
    let url = proxy.record()["url"].as_str().expect("a URL").to_owned();
    let (before, query) = url.split_once('?').expect("a query");
    assert_eq!(before, origin.url("/page"));
    let values: Vec<_> = query.split('&').map(|part| part.trim_start_matches("token=")).collect();
    assert_eq!(values[0], values[1]);
    assert!(values.iter().all(|value| value.len() == 17 && value.starts_with('~')), "{url}");
}
