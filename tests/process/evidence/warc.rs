//! What we write as WARC, read back by warcio: the archives' own reader.

use std::net::IpAddr;
use std::path::Path;

use courtesy::audit::evidence::warc::{Info, Packing, Writer};
use courtesy::audit::evidence::{Answer, Body, CaptureRecord, Failure};
use courtesy::types::sanitize::sha256_hex;
use courtesy::types::timestamp::Timestamp;
use serde_json::{Value, json};

use crate::evidence::warcio::{python, read_back};

const NOON: u64 = 1_795_176_000_123;
const FILE: &[u8] = b"User-agent: *\nDisallow: /\xff\n";

fn answer(url: &str, status: u16, head: &str) -> Answer {
    let peer = Some(IpAddr::from([192, 0, 2, 7]));
    Answer {
        head: head.to_owned(),
        head_cut: false,
        peer,
        request: None,
        status,
        url: url.to_owned(),
        via: None,
    }
}

fn capture(
    answers: Vec<Answer>,
    body: Option<(&[u8], bool)>,
    failure: Option<(&str, &str)>,
) -> CaptureRecord {
    CaptureRecord {
        asked: "http://example.com/robots.txt".into(),
        answers,
        body: body.map(|(file, cut)| Body {
            cut,
            bytes: file.len() as u64,
            sha256: sha256_hex(file),
        }),
        failure: failure.map(|(word, text)| Failure {
            parent_status: None,
            text: text.into(),
            via: None,
            word: word.into(),
        }),
        fetched_at: NOON,
        user_agent: None,
    }
}

/// The line and fields of what was sent for `path`.
fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: example.com\r\nuser-agent: ExampleBot caf\u{e9}\r\n")
}

/// A redirect to a file that came packed; a file that was cut, over HTTP/2 and IPv6; an error; no
/// answer at all; and a file that is not at hand any more.
fn captures() -> Vec<(CaptureRecord, Option<&'static [u8]>)> {
    let asked = "http://example.com/robots.txt";
    let moved = "HTTP/1.1 301 Moved\r\nlocation: https://example.com/r\r\ncontent-length: 120\r\n";
    let packed = "HTTP/1.1 200 OK\r\nserver: caf\u{e9}\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n";
    let mut redirected =
        vec![answer(asked, 301, moved), answer("https://example.com/r", 200, packed)];
    redirected[0].request = Some(request("/robots.txt"));
    redirected[1].request = Some(request("/r"));
    let mut cut = answer(asked, 200, "HTTP/2 200\r\ncontent-type: text/plain\r\n");
    cut.peer = Some("2001:db8::7".parse().unwrap());
    cut.request = Some(request("/robots.txt"));
    let busy = answer(asked, 503, "HTTP/1.1 503 Service Unavailable\r\nretry-after: 120\r\n");
    let plain = answer(asked, 200, "HTTP/1.1 200 OK\r\ncontent-length: 27\r\n");
    vec![
        (capture(redirected, Some((FILE, false)), None), Some(FILE)),
        (capture(vec![cut], Some((&FILE[..9], true)), None), Some(&FILE[..9])),
        (capture(vec![busy], None, Some(("status", "status 503"))), None),
        (capture(vec![], None, Some(("dns_error", "no such name\r\nForged: yes"))), None),
        (capture(vec![plain], Some((FILE, false)), None), None),
    ]
}

fn archive(packing: Packing) -> Vec<u8> {
    let info = Info {
        made_at: Timestamp::from_millis(NOON),
        description: "what a test has made up".into(),
    };
    let mut writer = Writer::new(Vec::new(), packing, &info).unwrap();
    for (capture, body) in captures() {
        writer.write_capture(&capture, body).unwrap();
    }
    writer.finish().unwrap()
}

/// The records but the requests.
fn answers(archive: &Path) -> Vec<Value> {
    read_back(archive).into_iter().filter(|record| record["type"] != "request").collect()
}

#[test]
fn an_archive_reads_back_as_what_was_captured() {
    let dir = tempfile::tempdir().unwrap();
    for (packing, name) in [(Packing::Plain, "a.warc"), (Packing::Gzip, "a.warc.gz")] {
        let path = dir.path().join(name);
        std::fs::write(&path, archive(packing)).unwrap();
        let records = read_back(&path);
        let column =
            |name: &str| records.iter().map(|record| record[name].clone()).collect::<Vec<_>>();
        let types = [
            "warcinfo", "request", "response", "request", "response", "request", "response",
            "response", "metadata", "metadata", "response",
        ];
        assert_eq!(column("type"), types);
        let records = answers(&path);
        let column =
            |name: &str| records.iter().map(|record| record[name].clone()).collect::<Vec<_>>();
        assert_eq!(
            json!(column("status")),
            json!([null, "301", "200", "200", "503", null, null, "200"]),
            "{name}"
        );
        assert_eq!(records[2]["uri"], "https://example.com/r");
        assert!(
            records.iter().all(|record| record["date"] == "2026-11-20T12:00:00.123Z"),
            "{name}"
        );
        assert_eq!(records[3]["ip"], "2001:db8::7");
        assert_eq!(
            json!(column("protocol")),
            json!([null, null, null, "h2", null, null, null, null])
        );
        let truncated =
            json!([null, "unspecified", null, "length", "unspecified", null, null, "unspecified"]);
        assert_eq!(json!(column("truncated")), truncated);
        assert_eq!(records[2]["payload"], "User-agent: *\nDisallow: /\u{ff}\n");
        assert_eq!(records[3]["payload"], "User-agen");
        assert_eq!(records[5]["payload"], "failure: status\r\nfailureText: status 503\r\n");
        let escaped = "failure: dns_error\r\nfailureText: no such name\\x0D\\x0AForged: yes\r\n";
        assert_eq!(records[6]["payload"], escaped);
        assert_eq!(records[7]["payload"], "");
    }
}

#[test]
fn each_answer_comes_after_the_request_that_was_sent_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.warc");
    std::fs::write(&path, archive(Packing::Plain)).unwrap();
    let records = read_back(&path);
    for (at, uri, path) in [
        (1, "http://example.com/robots.txt", "/robots.txt"),
        (3, "https://example.com/r", "/r"),
        (5, "http://example.com/robots.txt", "/robots.txt"),
    ] {
        let (request, response) = (&records[at], &records[at + 1]);
        assert_eq!(request["type"], "request");
        assert_eq!((&request["uri"], &request["concurrent"]), (&json!(uri), &response["id"]));
        for shared in ["uri", "ip", "protocol", "date"] {
            assert_eq!(request[shared], response[shared], "{shared}");
        }
        assert_eq!(request["line"], format!("GET {path} HTTP/1.1"));
        let fields = json!({ "host": "example.com", "user-agent": "ExampleBot caf\u{e9}" });
        assert_eq!((&request["fields"], &request["payload"]), (&fields, &json!("")));
    }
}

#[test]
fn no_field_of_a_head_lies_about_what_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.warc");
    std::fs::write(&path, archive(Packing::Plain)).unwrap();
    let records = answers(&path);
    let expected = json!({
        "server": "caf\u{e9}",
        "X-Archive-Orig-content-encoding": "gzip",
        "X-Archive-Orig-transfer-encoding": "chunked",
        "Content-Length": "27",
    });
    assert_eq!(records[2]["fields"], expected);
    assert_eq!(records[1]["fields"]["X-Archive-Orig-content-length"], "120");
    assert_eq!(records[1]["fields"]["Content-Length"], "0");
}

#[test]
fn the_answers_of_one_attempt_name_its_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.warc");
    std::fs::write(&path, archive(Packing::Plain)).unwrap();
    let records = answers(&path);
    assert_eq!(records[2]["concurrent"], records[1]["id"]);
    assert_eq!(records[5]["concurrent"], records[4]["id"]);
    let mut ids: Vec<_> = records.iter().map(|record| record["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), records.len());
    assert_eq!(
        archive(Packing::Plain),
        archive(Packing::Plain),
        "the same evidence, the same archive"
    );
}

#[test]
fn the_checker_of_archives_finds_no_fault_and_would_find_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive");
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        python(&["-m", "warcio.cli", "check", "-v", path.to_str().unwrap()])
    };
    for packing in [Packing::Plain, Packing::Gzip] {
        let output = check(&archive(packing));
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.matches("digest pass").count(), 11, "{said}");
    }
    let mut changed = archive(Packing::Plain);
    let at = changed.windows(9).position(|bytes| bytes == b"Disallow:").unwrap();
    changed[at] = b'd';
    assert!(!check(&changed).status.success());
}
