//! Which records are found, in which segments.

use std::net::IpAddr;
use std::sync::Arc;

use courtesy::audit::{
    self, Client, Event, Exemption, Gap, GapEvent, Notice, Profile, Reason, Record, Rule, Writer,
};
use courtesy::runtime::clock::{Clock, ManualClock};
use courtesy::types::timestamp::Timestamp;

use crate::audit_cli::support::{
    Log, NOON, audit, compress, courtesy, ended, fails, id, record, succeeds,
};

/// The numbers of the records that a query finds.
#[track_caller]
fn found(log: &Log, arguments: &[&str]) -> Vec<u64> {
    let lines = succeeds(&mut audit(log.dir.path(), &[&["query"], arguments].concat()));
    lines
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap()
        })
        .collect()
}

#[test]
fn each_filter_finds_its_records() {
    let mut log = Log::new();
    let rule = |pattern: &str| {
        Some(Rule {
            directive: "disallow".into(),
            line: 30,
            pattern: pattern.into(),
            read_as: Vec::new(),
        })
    };
    let exempted =
        Record { event: Event::Exempted, origin: "http://example.org:8080".into(), ..record(4) };
    let unreachable = Record { reason: Reason::RobotsUnreachable, rule: None, ..record(5) };
    let named = Client::at("2001:db8::7".parse::<IpAddr>().unwrap(), Some("crawler-7".into()));
    let named = Record { client: named, rule: rule("/a*b$"), ..record(6) };
    let exemption =
        Exemption { by: "Legal".into(), reason: "r".into(), ticket: None, until: Timestamp::LAST };
    let exempted = Record { exemption: Some(exemption), ..exempted };
    let of_file = |record: Record, sha256: &str| {
        let mut robots = record.robots.clone().unwrap();
        robots.sha256 = Some(sha256.into());
        Record { robots: Some(robots), ..record }
    };
    let of_profile = |record: Record, version| {
        let profile = Profile { name: "google".into(), version, ..record.profile };
        Record { profile, ..record }
    };
    let traced = Record { trace_id: Some("4bf92f3577b34da6a3ce929d0e0e4736".into()), ..record(2) };
    let second = of_file(traced, &"ab12".repeat(16));
    let third = of_profile(of_file(record(3), &"cd".repeat(32)), 2);
    log.write([record(1), second, third, exempted, unreachable, of_profile(named, 1)]);
    for (arguments, expected) in [
        (&["--agent", "wget"][..], &[1, 3, 5][..]),
        (&["--agent", "Example*"], &[2, 4, 6]),
        (&["--event", "exempted"], &[4]),
        (&["--event", "exempted", "--event", "denied"], &[1, 2, 3, 4, 5, 6]),
        (&["--reason", "robots_unreachable"], &[5]),
        (&["--rule", "30"], &[6]),
        (&["--rule", "/a*b$", "--rule", "/none"], &[6]),
        (&["--client", "10.0.0.2"], &[2]),
        (&["--client", "10.0.0.0/8"], &[1, 2, 3, 4, 5]),
        (&["--client", "crawler-7"], &[6]),
        (&["--id", &id(3).to_lowercase()], &[3]),
        (&["--id", "01M7WD"], &[1, 2, 3, 4, 5, 6]),
        (&["--origin", "*.example.com"], &[1, 2, 3, 5, 6]),
        (&["--origin", "https://www1.example.com"], &[1]),
        (&["--origin", "example.org", "--origin", "www2.example.com"], &[2, 4, 5]),
        (&["--url", "*/private/3"], &[3]),
        (&["--since", "2026-11-20T12:05:00Z"], &[5, 6]),
        (&["--until", "2026-11-20T13:02:00+01:00"], &[1]),
        (&["--since", "2026-11-20", "--until", "2026-11-20"], &[1, 2, 3, 4, 5, 6]),
        (&["--since", "2026-11-21"], &[]),
        (&["--agent", "wget", "--client", "10.0.0.3"], &[3]),
        (&["--limit", "2"], &[1, 2]),
        (&["--tail", "2"], &[5, 6]),
        (&["--agent", "wget", "--tail", "2"], &[3, 5]),
        (&["--limit", "0"], &[]),
        (&["--sha256", "AB12"], &[2]),
        (&["--sha256", &"cd".repeat(32), "--sha256", "ab"], &[2, 3]),
        (&["--trace", "4bf92f3577b34da6a3ce929d0e0e4736"], &[2]),
        (&["--trace", "4BF9", "--url", "*/private/2"], &[2]),
        (&["--profile", "google"], &[3, 6]),
        (&["--profile", "google@2"], &[3]),
        (&["--profile", "google@2", "--profile", "rfc9309@1"], &[1, 2, 3, 4, 5]),
        (&["--exempted-by", "legal"], &[4]),
        (&["--exempted-by", "*dep*"], &[]),
        (&["--since", "2026-11-20 12:05", "--until", "2026-11-20T12:06"], &[5]),
        (&["--since", "yesterday"], &[]),
    ] {
        assert_eq!(found(&log, arguments), expected, "{arguments:?}");
    }
}

#[test]
fn a_length_of_time_counts_back_from_now() {
    let mut log = Log::new();
    let now = courtesy::runtime::clock::SystemClock.wall();
    let ago = |minutes: u64| Timestamp::from_millis(now.millis() - minutes * 60_000);
    log.write([Record { time: ago(150), ..record(1) }, Record { time: ago(30), ..record(2) }]);
    assert_eq!(found(&log, &["--since", "1h"]), [2]);
    assert_eq!(found(&log, &["--since", "1d", "--until", "2h"]), [1]);
}

#[test]
fn segments_are_one_log_whatever_became_of_them() {
    let mut log = Log::new();
    let dir = log.dir.path().to_owned();
    for first in [1, 11, 21, 31] {
        log.write((first..first + 10).map(record));
        log.rotate();
    }
    log.write((41..=45).map(record));
    compress(&dir.join("denials-000000000011.jsonl"));
    std::fs::rename(dir.join("denials-000000000001.jsonl"), dir.join("denials.jsonl.2")).unwrap();
    std::fs::rename(dir.join("denials-000000000031.jsonl"), dir.join("denials.jsonl-20261120"))
        .unwrap();
    assert_eq!(found(&log, &[]), (1..=45).collect::<Vec<_>>());
    // Of a segment that is there twice, as while it is being compressed, one is read.
    std::fs::copy(
        dir.join("denials-000000000011.jsonl.gz"),
        dir.join("denials-000000000011.jsonl"),
    )
    .unwrap();
    std::fs::write(dir.join("denials-000000000021.jsonl.gz.tmp"), "half").unwrap();
    assert_eq!(found(&log, &[]), (1..=45).collect::<Vec<_>>());
    // Files may be named in any order.
    let files =
        ["denials.jsonl", "denials.jsonl.2"].map(|name| dir.join(name).display().to_string());
    let lines = succeeds(&mut courtesy(&["query", &files[0], &files[1]]));
    assert_eq!(lines.lines().count(), 15);
    assert!(lines.contains("\"seq\":1,") && lines.lines().last().unwrap().contains("\"seq\":45,"));
}

#[test]
fn segments_of_another_time_are_passed_over() {
    let mut log = Log::new();
    let day = |n: u64| Timestamp::from_millis(NOON + n * 24 * 60 * 60 * 1000);
    for n in 0..6 {
        log.write([Record { time: day(n), ..record(n) }]);
        log.rotate();
    }
    // It could not be read, and nobody looks.
    let old = log.dir.path().join("denials-000000000001.jsonl");
    let damaged =
        std::fs::read_to_string(&old).unwrap().lines().next().unwrap().to_owned() + "\n\u{1f}\n";
    std::fs::write(&old, damaged).unwrap();
    assert_eq!(found(&log, &["--since", "2026-11-24"]), [5, 6]);
    let (code, lines, said) = ended(&mut audit(log.dir.path(), &["query"]));
    assert_eq!((code, lines.lines().count()), (Some(1), 6));
    assert_eq!(said, "warning: 1 line is damaged and left out; see courtesy audit verify\n");
}

#[test]
fn what_the_writer_writes_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::starting_at(Timestamp::from_millis(NOON));
    let writer =
        Writer::open(audit::Config::new(dir.path().to_owned()), clock as Arc<dyn Clock>).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for n in 1..=3 {
        runtime.block_on(writer.write(record(n), Vec::new())).unwrap();
    }
    // The writer still holds the log.
    let lines = succeeds(&mut audit(dir.path(), &["query", "--agent", "wget"]));
    assert_eq!(lines.lines().count(), 2);
}

#[test]
fn records_that_were_lost_are_told_of() {
    let mut log = Log::new();
    log.write([record(1)]);
    let [since, time] = [2, 5].map(|minute| record(minute).time);
    log.note(Notice::Gap(Gap {
        event: GapEvent::It,
        lost: 12,
        node: None,
        prev: String::new(),
        seq: 0,
        since,
        time,
        why: "No space left on device".into(),
    }));
    log.write([record(6)]);
    let (code, lines, said) = ended(&mut audit(log.dir.path(), &["query"]));
    assert_eq!((code, lines.lines().count()), (Some(0), 2));
    assert_eq!(
        said,
        "note: 12 records of 2026-11-20T12:02:00.000000Z to 2026-11-20T12:05:00.000000Z could not be \
         written and are lost\n"
    );
    assert_eq!(found(&log, &["--since", "2026-11-20T12:05:30Z"]), [3]);
}

#[test]
fn a_segment_that_cannot_be_read_is_said_and_the_others_are_read() {
    let mut log = Log::new();
    log.write((1..=3).map(record));
    let closed = log.rotate();
    log.write([record(4)]);
    compress(&closed);
    let damaged = log.dir.path().join("denials-000000000001.jsonl.gz");
    let bytes = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    let (code, lines, said) = ended(&mut audit(log.dir.path(), &["query", "--id", &id(4)]));
    assert_eq!((code, lines.lines().count()), (Some(74), 1));
    assert!(
        said.contains("warning: cannot read ") && said.contains("denials-000000000001.jsonl.gz"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_can() {
    let log = Log::new();
    std::fs::write(log.active(), "").unwrap();
    for (arguments, expected) in [
        (&["--reason", "disalow_rule"][..], "did you mean disallow_rule?"),
        (&["--reason", "foo"], "robots_unreachable"),
        (&["--event", "deny"], "would_deny"),
        (&["--since", "tomorrow"], "\"2h\""),
        (&["--origin", "exa mple"], "not a valid host name"),
        (&["--client", "10.0.0.0/99"], "10.0.0.0/8"),
        (&["--origin", "https://example.com/private/"], "write https://example.com;"),
        (&["--since", "2026-11-20", "--until", "2026-11-19"], "--until, 2026-11-20T00:00:00"),
        (&["--tail", "1000000"], "..=100000"),
    ] {
        let said = fails(&mut audit(log.dir.path(), &[&["query"], arguments].concat()), 2);
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let said = fails(&mut courtesy(&["query", "--dir", "/nowhere"]), 69);
    assert!(said.contains("there is no log in /nowhere"), "{said}");
    let empty = tempfile::tempdir().unwrap();
    for command in ["query", "verify", "report", "head"] {
        let said = fails(&mut audit(empty.path(), &[command]), 69);
        assert!(said.contains("there is no log in "), "{command}: {said}");
    }
    assert!(fails(&mut courtesy(&["query", "/nowhere.jsonl"]), 74).contains("/nowhere.jsonl"));
}

#[test]
fn a_run_is_found_by_its_id_or_as_the_last() {
    let state = tempfile::tempdir().unwrap();
    let state_dir = state.path().to_str().unwrap();
    let query = |run: &str| courtesy(&["query", "--state-dir", state_dir, "--run", run]);
    assert!(fails(&mut query("last"), 69).contains("there are no runs"));
    for (id, n) in [("01K9ZX", 1), ("01K9ZY", 2)] {
        let mut log = Log::new();
        log.write([record(n)]);
        let audit = state.path().join("runs").join(id).join("audit");
        std::fs::create_dir_all(&audit).unwrap();
        std::fs::copy(log.active(), audit.join("denials.jsonl")).unwrap();
    }
    for (run, url) in [("last", "/private/2\""), ("01k9zx", "/private/1\"")] {
        assert!(succeeds(&mut query(run)).contains(url), "{run}");
    }
    assert!(fails(&mut query("01K9"), 69).contains("01K9ZX, 01K9ZY"));
    assert!(fails(&mut query("02"), 69).contains("there is no run 02"));
}
