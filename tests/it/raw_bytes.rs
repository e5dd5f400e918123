//! Bytes in path and query that no URL has as themselves: percent-encoded before the decision, the record says both.

use std::io::Write;
use std::process::{Command, Stdio};

use courtesy::audit::read::replay::{Replay, Replayed};
use courtesy::config::ProfileName;
use courtesy::policy::profile;
use serde_json::{Value, json};

use crate::testkit::parties::{AGENT, Client, Origin, Proxy};

const RULES: &str = "User-agent: *\nDisallow: /caf\u{e9}/\nDisallow: /*?q=%3Cx\nDisallow: /latin/%E9\nDisallow: /q%22\n";

/// Path and query as a client writes them, as they are judged and sent, and whether they are disallowed.
const SPELLINGS: [(&[u8], &str, bool); 9] = [
    (b"/caf\xc3\xa9/a", "/caf%C3%A9/a", true),
    (b"/caf%C3%A9/a", "/caf%C3%A9/a", true),
    (b"/a?q=<x>", "/a?q=%3Cx%3E", true),
    (b"/latin/\xe9", "/latin/%E9", true),
    (b"/q\"", "/q%22", true),
    (b"/caf\xe9/a", "/caf%E9/a", false),
    (b"/latin/\xe8`", "/latin/%E8%60", false),
    (b"/a?q=x<", "/a?q=x%3C", false),
    (b"/a?q=%3cy", "/a?q=%3cy", false),
];

/// One exchange; the target in the form that `client` takes.
fn status(client: &mut Client, before: &str, path: &[u8], authority: &str) -> u16 {
    let fields = format!(" HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {AGENT}\r\n\r\n");
    client.send([b"GET ", before.as_bytes(), path, fields.as_bytes()].concat()).read().status()
}

#[test]
fn a4_what_is_judged_is_what_is_sent_and_the_record_has_both_spellings() {
    for origin in [Origin::with_robots(RULES), Origin::secure().robots(RULES)] {
        let proxy = Proxy::before(&[&origin], |_| {});
        let is_plain = origin.url("").starts_with("http:");
        let authority = origin.authority();
        let (mut client, before) = if is_plain {
            (proxy.client(), origin.url(""))
        } else {
            (proxy.https(&authority), String::new())
        };
        let mut sent = vec!["GET /robots.txt".to_owned()];
        for (typed, encoded, denied) in SPELLINGS {
            let expected = if denied { 403 } else { 200 };
            let shown = typed.escape_ascii();
            assert_eq!(status(&mut client, &before, typed, &authority), expected, "{shown}");
            sent.extend((!denied).then(|| format!("GET {encoded}")));
        }
        assert_eq!(origin.request_lines(), sent, "and all of it is ASCII");

        let records = proxy.records();
        let denied = SPELLINGS.iter().filter(|(.., denied)| *denied);
        assert_eq!(records.len(), denied.clone().count());
        for (record, (typed, encoded, _)) in records.iter().zip(denied) {
            assert_eq!(record["url"], origin.url(encoded));
            let received = (*typed != encoded.as_bytes()).then(|| {
                let typed =
                    String::from_utf8(typed.to_vec()).unwrap_or_else(|_| "/latin/\\xE9".into());
                Value::from(origin.url(&typed))
            });
            assert_eq!(record.get("url_as_received"), received.as_ref(), "{encoded}");
        }
    }
}

/// The engine resets the stream of what is no UTF-8, or has `<` or `>`; what passes it is treated as in HTTP/1.1.
#[test]
fn a4_what_comes_by_http_2_is_encoded_too() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    assert_eq!(client.get("/caf\u{e9}/a?\u{e9}").status, 403);
    assert_eq!(client.get("/q\"").status, 403);
    assert_eq!(client.get("/\u{e9}\"?\u{e9}=1").status, 200);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /%C3%A9%22?%C3%A9=1"]);
    let records = proxy.records();
    assert_eq!(records[0]["url"], origin.url("/caf%C3%A9/a?%C3%A9"));
    assert_eq!(records[0]["url_as_received"], origin.url("/caf\u{e9}/a?\u{e9}"));
    assert_eq!(records[1]["url_as_received"], origin.url("/q\""));
}

/// Also where a dialect takes URLs as they are given: what was judged is in the record.
#[test]
fn a4_every_profile_judges_what_is_sent_and_decides_the_records_again() {
    let origin = Origin::with_robots(RULES);
    for profile in [
        ProfileName::Rfc9309,
        ProfileName::Google,
        ProfileName::Google2019,
        ProfileName::DraftRep00,
        ProfileName::Koster1996,
        ProfileName::Conservative,
        ProfileName::Archival,
    ] {
        let proxy = Proxy::with(|settings| settings.robots.profile = profile);
        for (typed, encoded, _) in SPELLINGS {
            let mut client = proxy.client();
            let [typed_is, encoded_is] = [typed, encoded.as_bytes()]
                .map(|path| status(&mut client, &origin.url(""), path, &origin.authority()));
            assert_eq!(typed_is, encoded_is, "{} by {profile:?}", typed.escape_ascii());
        }
        let records = proxy.records();
        assert!(records.len() >= 4, "{profile:?}: {records:#?}");
        let make =
            |name: &str, version: u32, changes: &_| profile::recorded(name, version, changes);
        let mut replay = Replay::recorded(&proxy.audit_dir(), make);
        for record in records.iter().filter(|record| record.get("url_as_received").is_some()) {
            let again = replay.again(&serde_json::from_value(record.clone()).expect("a record"));
            assert_eq!(again, Replayed::Same, "{profile:?}: {record:#}");
        }
    }
}

#[test]
fn a4_what_redaction_hides_is_hidden_in_both_spellings() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::with(|settings| settings.audit.redact_query = true);
    let path = "/caf\u{e9}/a?q=<secret>&\u{2026}=secret&secret\u{e9}".as_bytes();
    assert_eq!(status(&mut proxy.client(), &origin.url(""), path, &origin.authority()), 403);
    let record = proxy.record();
    assert!(!record.to_string().contains("secret"), "{record:#}");
    let [url, received] =
        ["url", "url_as_received"].map(|name| record[name].as_str().unwrap_or_default());
    assert!(url.starts_with(&origin.url("/caf%C3%A9/a?q=~")), "{url}");
    assert!(received.starts_with(&origin.url("/caf\u{e9}/a?q=~")), "{received}");
}

/// However long it is, and whatever could move a cursor.
#[test]
fn what_was_received_is_bounded_and_escaped() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let proxy = Proxy::start();
    let long = [&b"/\xe2\x80\xae\xc2\x9b\xff\\"[..], "\u{e9}".repeat(10_000).as_bytes()].concat();
    assert_eq!(status(&mut proxy.client(), &origin.url(""), &long, &origin.authority()), 403);
    let received = proxy.record()["url_as_received"].as_str().expect("it is there").to_owned();
    assert!(received.starts_with(&origin.url(r"/\xE2\x80\xAE\xC2\x9B\xFF\\éé")), "{received}");
    assert!(received.len() < 2300 && received.contains("…[20008 octets, sha256 "), "{received}");
}

/// `courtesy check` is asked in the same spellings, and says what the proxy does.
#[test]
fn a4_check_decides_as_the_proxy_does_in_each_spelling() {
    let origin = Origin::with_robots(RULES);
    let base64 = |bytes: &[u8]| {
        use base64::{Engine, engine::general_purpose::STANDARD};
        STANDARD.encode(bytes)
    };
    let urls: Vec<Vec<u8>> =
        SPELLINGS.iter().map(|(typed, ..)| [origin.url("").as_bytes(), typed].concat()).collect();
    let list = urls.join(&b'\n');
    let batch: String =
        urls.iter().map(|url| json!({ "url_b64": base64(url) }).to_string() + "\n").collect();
    for profile in ["rfc9309", "google"] {
        let proxy =
            Proxy::with(|settings| settings.robots.profile = profile.parse().expect("a profile"));
        let decided: Vec<bool> = SPELLINGS
            .iter()
            .map(|(typed, ..)| {
                status(&mut proxy.client(), &origin.url(""), typed, &origin.authority()) == 200
            })
            .collect();
        for (arguments, input) in
            [(&["--json", "-"][..], &list[..]), (&["--batch"], batch.as_bytes())]
        {
            let arguments =
                [&["--allow-private", "--profile", profile, "--agent", "ExampleBot"], arguments]
                    .concat();
            assert_eq!(check(&arguments, input), decided, "{arguments:?}");
        }
    }
    for refused in ["/a b", "/\u{e9}\u{7f}", "/a\t\u{e9}"] {
        let url = format!("{{\"url_b64\":\"{}\"}}", base64(origin.url(refused).as_bytes()));
        let said = said(&["--allow-private", "--batch"], url.as_bytes());
        assert!(said.contains("blank or a control character"), "{said}");
    }
}

/// What it says of each line: whether that is allowed.
fn check(arguments: &[&str], input: &[u8]) -> Vec<bool> {
    let lines = said(arguments, input);
    lines
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).expect("an answer");
            assert!(answer.get("error").is_none(), "{answer}");
            answer["decision"] == "allow"
        })
        .collect()
}

fn said(arguments: &[&str], input: &[u8]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_courtesy"))
        .arg("check")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("courtesy");
    child.stdin.take().expect("it reads").write_all(input).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("it is text")
}
