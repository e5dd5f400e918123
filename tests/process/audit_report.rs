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
        numbers.for_each(|number| {
            _ = head.push(Content::Record(Box::new(record(number))), &mut lines)
        });
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
    assert_eq!(
        json["by_origin"]["rows"][0],
        json!({
            "origin": "https://a.example.com", "records": 30,
            "denied": 30, "would_deny": 0, "exempted": 0, "tunnelled": 0,
        })
    );
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
    let bytes = fs::read(&closed).unwrap();
    fs::remove_file(&closed).unwrap();
    assert_eq!(json_of(dir.path(), &[])["missing"]["absent_lines"], LINES / 2);
    fs::write(&closed, &bytes[..bytes.len() / 2]).unwrap();
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
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains(&head.hash)
            && page.ends_with("</html>\n")
    );
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

/// A log with something of everything, its texts as long as strangers make them.
fn eventful_log(dir: &Path) -> Head {
    let (host, agent) = (format!("{}.example.com", "long-name-".repeat(6)), "ExampleBot".repeat(6));
    let exemption = json!({ "by": "The legal department", "reason": "a contract".repeat(9), "ticket": "OPS-7", "until": "2027-01-01T00:00:00Z" });
    let mut head = Head::genesis();
    let mut lines = Vec::new();
    for (number, event) in
        ["denied", "would_deny", "exempted", "tunnelled"].into_iter().cycle().take(80).enumerate()
    {
        let mut record = serde_json::to_value(record(number as u64 % LINES)).unwrap();
        record["event"] = json!(event);
        record["node"] = json!(["crawl-1.internal", "crawl-2.internal"][number % 2]);
        if number % 3 == 0 {
            (record["agent"], record["origin"]) =
                (json!(agent), json!(format!("https://{host}:8443")));
            record["rule"]["pattern"] = json!("/private/?q=".repeat(20));
            record["client"]["name"] = json!("a-client-with-a-name-".repeat(4));
        }
        if number % 7 == 0 {
            (record["reason"], record["rule"]) = (json!("robots_unreachable"), Value::Null);
        }
        if event == "exempted" {
            record["exemption"] = exemption.clone();
        }
        let record: Record = serde_json::from_value(record).expect("a record");
        head.push(Content::Record(Box::new(record)), &mut lines);
    }
    fs::write(dir.join("denials.jsonl"), lines).unwrap();
    head
}

/// How wide `page` is where there are `columns` pixels for it, as Chromium lays it out; and whether all
/// `details` are open.
fn laid_out(page: &str, columns: u32) -> u32 {
    let dir = tempfile::tempdir().unwrap();
    // Within a document of our own, which may run scripts: the report may not.
    let harness = "<!doctype html><body><script>
        const frame = document.createElement('iframe');
        frame.width = COLUMNS; frame.height = 800; frame.srcdoc = PAGE;
        frame.onload = () => {
            const page = frame.contentDocument;
            page.querySelectorAll('details').forEach(it => it.open = true);
            document.body.textContent = `scroll width ${page.documentElement.scrollWidth} of ${page.defaultView.innerWidth}.`;
        };
        document.body.append(frame);
    </script>";
    let page = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
    let harness = harness.replace("COLUMNS", &columns.to_string()).replace("PAGE", &page);
    fs::write(dir.path().join("harness.html"), harness).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("file://{}", dir.path().join("harness.html").display()))
        .env("HOME", dir.path())
        .output()
        .expect("Chromium is there: tests/run installs it, or apt-get install chromium");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let width = shown.split_once("scroll width ").and_then(|(_, rest)| rest.split_once(" of "));
    let (width, rest) = width.unwrap_or_else(|| panic!("{output:?}"));
    assert!(
        rest.starts_with(&format!("{columns}.")),
        "the frame is {columns} pixels wide: {shown}"
    );
    width.parse().expect("a number")
}

#[test]
fn on_the_screen_of_a_telephone_the_page_is_as_wide_as_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("a-long-name-".repeat(12));
    fs::create_dir(&log).unwrap();
    eventful_log(&log);
    let lines = fs::read_to_string(log.join("denials.jsonl")).unwrap();
    fs::write(log.join("denials.jsonl"), lines.replacen("ExampleBot/1.0", "ExampleBot/1.1", 1))
        .unwrap();
    let page = String::from_utf8(report(&log, &["--verify", "--format", "html"]).stdout).unwrap();
    let long_texts = ["Tunnelled", "ExampleBotExampleBot", "a-long-name-a-long-name-"];
    assert!(long_texts.iter().all(|text| page.contains(text)), "{page}");
    for columns in [390, 1280] {
        assert!(laid_out(&page, columns) <= columns, "{columns} pixels");
    }
    let wide = page.replace("<main>", "<main><p style=\"width: 500px\">wide</p>");
    assert!(laid_out(&wide, 390) > 390, "what overflows is seen");
}

#[test]
fn a_report_says_whether_the_log_was_verified_and_what_that_found() {
    let dir = tempfile::tempdir().unwrap();
    let head = log(dir.path());
    let text = |args: &[&str], code| {
        let output = report(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text(&[], 0).contains("Not verified: courtesy audit report --verify"));
    let verified = text(&["--verify"], 0);
    assert!(
        verified.contains(
            "Verified. The log holds in itself; no published head was given. Its last line is 40."
        ),
        "{verified}"
    );
    let published = format!("{}:{}", head.seq, head.hash);
    let verified = text(&["--verify", "--head", &published], 0);
    assert!(
        verified.contains("Verified. The log holds, up to line 40 under a published head."),
        "{verified}"
    );
    text(&["--head", &published], 2);

    let active = dir.path().join("denials.jsonl");
    let forged = fs::read_to_string(&active).unwrap().replacen("/private/21", "/private/99", 1);
    fs::write(&active, forged).unwrap();
    let verified = text(&["--verify"], 1);
    assert!(verified.contains("Verified. The log does not hold: one fault."), "{verified}");
    let page = text(&["--verify", "--format", "html"], 1);
    assert!(page.contains("<span class=\"urgent\">Verified. The log does not hold"));
    let json: Value = serde_json::from_str(&text(&["--verify", "--format", "json"], 1)).unwrap();
    assert_eq!(
        (&json["verified"]["holds"], &json["verified"]["fault_count"]),
        (&json!(false), &json!(1))
    );
}

#[test]
fn refused_and_forwarded_requests_are_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    eventful_log(dir.path());
    let json = json_of(dir.path(), &[]);
    let forwarded =
        json!({ "records": 60, "denied": 0, "would_deny": 20, "exempted": 20, "tunnelled": 20 });
    for (name, count) in forwarded.as_object().unwrap() {
        assert_eq!(&json["forwarded"][name], count, "{name}");
    }
    assert_eq!(
        json["writers"],
        json!({ "nodes": ["crawl-1.internal", "crawl-2.internal"], "unnamed_lines": 0, "versions": [] })
    );
    let text = String::from_utf8(report(dir.path(), &[]).stdout).unwrap();
    assert!(
        text.starts_with("Disallowed requests, ")
            && text.contains("\nForwarded although disallowed: "),
        "{text}"
    );
    assert!(
        text.contains("2026-12-31"),
        "the last day of the exemption, as it was written: {text}"
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path());
    for args in
        [["--top", "0"], ["--origin", "http://a b/"], ["--since", "tomorrow"], ["--format", "pdf"]]
    {
        assert_eq!(report(dir.path(), &args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(report(&dir.path().join("none"), &[]).status.code(), Some(69));
}

#[test]
fn one_agent_or_one_client_is_reported_on_alone() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path());
    let all = |args: &[&str]| json_of(dir.path(), args)["records"]["all"].clone();
    for (args, expected) in [
        (["--agent", "examplebot"], LINES),
        (["--agent", "Other*"], 0),
        (["--client", "192.0.2.0/24"], LINES),
        (["--client", "192.0.2.2"], 0),
    ] {
        assert_eq!(all(&args), expected, "{args:?}");
    }
    let report = json_of(dir.path(), &["--agent", "ExampleBot"]);
    assert_eq!(report["period"]["agents"], json!(["ExampleBot"]));
    assert_eq!(report["decided"], Value::Null);
}

#[test]
fn a_head_that_names_no_log_is_refused_with_several() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let head = log(dir.path());
    log(other.path());
    let given = format!("{}:{}", head.seq, head.hash);
    let other = other.path().to_str().unwrap();
    let output = report(dir.path(), &["--dir", other, "--verify", "--head", &given]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not name its log"), "{said}");
}
