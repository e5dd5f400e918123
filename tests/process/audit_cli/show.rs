//! One record, its robots.txt, and how that came.

use courtesy::audit::evidence::{Answer, Blob, BlobStore, Body, CaptureRecord, Failure, Kind};
use courtesy::audit::{Group, Reason, Record, Robots, RobotsStatus, Rule};
use courtesy::types::sanitize::{hex, sha256_hex};
use sha2::{Digest, Sha256};

use crate::audit_cli::support::{Log, NOON, audit, courtesy, ended, fails, id, record, succeeds};

/// Twenty lines; the group is on line 9, the rule on line 12.
fn file() -> String {
    (1..=20)
        .map(|line| match line {
            9 => "user-agent: *\n".to_owned(),
            12 => "Disallow: /private/   # \u{1b}[2J\n".to_owned(),
            _ => format!("# line {line}\n"),
        })
        .collect()
}

fn put(blob_store: &BlobStore, kind: Kind, content: &[u8]) -> String {
    let sha256: [u8; 32] = Sha256::digest(content).into();
    blob_store.put(&Blob { sha256, kind, content: content.to_vec().into() }).unwrap();
    hex(&sha256)
}

fn answer(url: &str, status: u16, head: &str) -> Answer {
    let peer = Some([192, 0, 2, 7].into());
    let (head, url) = (head.into(), url.into());
    Answer { head, head_cut: false, peer, request: None, status, url, via: None }
}

/// A log with one denial by rule, number 1, and one for want of a robots.txt, number 2.
fn log() -> Log {
    let mut log = Log::new();
    let blob_store = BlobStore::of(log.dir.path());
    let sha256 = put(&blob_store, Kind::File, file().as_bytes());
    let came = CaptureRecord {
        answers: vec![
            answer(
                "https://www1.example.com/robots.txt",
                301,
                "HTTP/1.1 301 Moved\r\nLocation: /r\r\n",
            ),
            answer("https://www1.example.com/r", 200, "HTTP/1.1 200 OK\r\nX-Odd: \u{9b}2J\r\n"),
        ],
        asked: "https://www1.example.com/robots.txt".into(),
        body: Some(Body { cut: false, bytes: file().len() as u64, sha256: sha256.clone() }),
        failure: None,
        fetched_at: NOON,
        user_agent: None,
    };
    let failed = CaptureRecord {
        answers: vec![answer(
            "https://www2.example.com/robots.txt",
            503,
            "HTTP/1.1 503 No\r\nRetry-After: 60\r\n",
        )],
        asked: "https://www2.example.com/robots.txt".into(),
        body: None,
        failure: Some(Failure {
            parent_status: None,
            text: "status 503".into(),
            via: None,
            word: "status".into(),
        }),
        fetched_at: NOON,
        user_agent: None,
    };
    let capture = put(&blob_store, Kind::Capture, &came.seal().json);
    let failed_capture = put(&blob_store, Kind::Capture, &failed.seal().json);
    let (by_rule, unreachable) = (record(1), record(2));
    let robots = Robots::clone(by_rule.robots.as_ref().unwrap());
    let by_rule = Record {
        robots: Some(
            Robots { sha256: Some(sha256), capture: Some(capture), ..robots.clone() }.into(),
        ),
        ..by_rule
    };
    let robots = Robots {
        state: RobotsStatus::Unreachable,
        cause: Some("status 503".into()),
        failed_capture: Some(failed_capture),
        failures: Some(3),
        status: Some(503),
        url: "https://www2.example.com/robots.txt".into(),
        url_reached: None,
        ..robots
    };
    let unreachable = Record {
        reason: Reason::RobotsUnreachable,
        rule: None,
        group: None,
        robots: Some(robots.into()),
        ..unreachable
    };
    log.write([by_rule, unreachable]);
    log
}

#[test]
fn the_deciding_line_is_marked_in_its_file() {
    let log = log();
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "1"]));
    assert!(shown.starts_with("denied  GET https://www1.example.com/private/1\n"), "{shown}");
    for expected in [
        "line 12 of https://www1.example.com/robots.txt, \"disallow: /private/\", applies to Wget",
        "▷      9  user-agent: *\n",
        "▶     12  Disallow: /private/   # \\x1B[2J\n",
        "      15  # line 15\n         … 20 lines in all; --all shows them\n",
        "https://www1.example.com/robots.txt answered 301 by 192.0.2.7\n",
        "https://www1.example.com/r answered 200 by 192.0.2.7\n",
        "X-Odd: \\xC2\\x9B2J\n",
        "number 1 of the log",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    assert!(!shown.contains("# line 16") && !shown.contains("# line 5"), "{shown}");
    let all = succeeds(&mut audit(log.dir.path(), &["show", "1", "--all"]));
    assert!(
        (1..=20)
            .filter(|line| ![9, 12].contains(line))
            .all(|line| all.contains(&format!("# line {line}\n")))
    );
}

#[test]
fn why_there_is_no_file_is_shown_from_the_failed_attempt() {
    let log = log();
    let shown = succeeds(&mut audit(log.dir.path(), &["show", &id(2).to_lowercase()]));
    for expected in
        ["could not be fetched (status 503)", "failed 3 times", "answered 503", "Retry-After: 60"]
    {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
}

#[test]
fn json_has_record_file_and_captures() {
    let log = log();
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "1", "--format", "json"]));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["file"], file());
    assert_eq!(shown["record"]["seq"], 1);
    assert_eq!(shown["capture"]["answers"][1]["status"], 200);
    assert_eq!(shown["evidence"]["file"], "present");
    assert_eq!(shown["failed_capture"], serde_json::Value::Null);
}

#[test]
fn missing_and_damaged_evidence_is_said() {
    let log = log();
    let blob_store = BlobStore::of(log.dir.path());
    let path = blob_store.path(Kind::File, &sha256_hex(file().as_bytes()));
    std::fs::write(&path, "no gzip").unwrap();
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "1"]));
    assert!(shown.contains("warning: its robots.txt is damaged in the evidence: "), "{shown}");
    std::fs::remove_file(&path).unwrap();
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "1"]));
    assert!(shown.contains("warning: its robots.txt is missing from the evidence\n"), "{shown}");
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "1", "--format", "json"]));
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&shown).unwrap()["evidence"]["file"],
        "missing"
    );
}

#[test]
fn a_beginning_that_is_no_ones_or_of_several_is_said() {
    let log = log();
    let said = fails(&mut audit(log.dir.path(), &["show", "01ZZ"]), 1);
    assert_eq!(said, "there is no record 01ZZ in the log\n");
    assert_eq!(ended(&mut audit(log.dir.path(), &["show", "4711"])).0, Some(1));
    let said = fails(&mut audit(log.dir.path(), &["show", "01M7"]), 2);
    assert!(said.starts_with("2 records begin with 01M7:\n"), "{said}");
    assert!(said.contains(&id(1)) && said.contains("/private/2"), "{said}");
}

#[test]
fn a_file_without_a_deciding_line_is_shown_from_its_beginning() {
    let mut log = log();
    let sha256 = sha256_hex(file().as_bytes());
    let robots = Robots { sha256: Some(sha256), ..Robots::clone(&record(3).robots.unwrap()) };
    let group = None::<Group>;
    let rule = None::<Rule>;
    log.write([Record {
        reason: Reason::PathNotSeen,
        robots: Some(robots.into()),
        group,
        rule,
        ..record(3)
    }]);
    let shown = succeeds(&mut audit(log.dir.path(), &["show", "3"]));
    assert!(
        shown.contains("       1  # line 1\n") && shown.contains("only the host was known"),
        "{shown}"
    );
}

/// As the page of a denial prints the command: without `--run`.
#[test]
fn a_record_of_a_run_is_found_by_its_id_and_the_log_before_it() {
    let state = tempfile::tempdir().unwrap();
    let state_dir = state.path().to_str().unwrap();
    let put = |dir: &str, n: u64| {
        let mut log = Log::new();
        log.write([record(n)]);
        let audit = state.path().join(dir).join("audit");
        std::fs::create_dir_all(&audit).unwrap();
        std::fs::copy(log.active(), audit.join("denials.jsonl")).unwrap();
    };
    let show = |id: &str| ended(&mut courtesy(&["show", id, "--state-dir", state_dir]));
    put("runs/01K9ZX", 1);
    put("runs/01K9ZY", 2);
    // Of a machine without a proxy of its own, then of one with.
    for _ in 0..2 {
        for n in [1, 2] {
            let (code, shown, said) = show(&id(n));
            assert_eq!(code, Some(0), "{said}");
            assert!(shown.contains(&format!("/private/{n}\n")), "{shown}");
            assert!(
                said.starts_with("note: it is in the log of a run, ")
                    && said.contains("/runs/01K9Z"),
                "{said}"
            );
        }
        let (code, _, said) = show(&id(9));
        assert_eq!(code, Some(1));
        assert!(said.contains("nor in those of 2 runs"), "{said}");
        put(".", 3);
    }
    let (code, shown, said) = show(&id(3));
    assert_eq!((code, said.as_str()), (Some(0), ""), "{shown}");
    // A number is one of the log alone.
    assert_eq!(show("2").0, Some(1));
}
