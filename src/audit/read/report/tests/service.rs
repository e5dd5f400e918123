//! When the proxy was on, in which mode, and under which exemptions, by tables.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::log::{DAY, HOUR, Log as Lines, NOON, started};
use super::*;
use crate::audit::evidence::{Blob, BlobStore, Kind};
use crate::audit::{Change, Notice, Started};
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Settings as evidence in that directory; returns their digest.
fn keep(dir: &std::path::Path, mode: &str, exemptions: &[Value]) -> String {
    let settings = json!({
        "agents.rules": [{"match": "Other*", "mode": "observe"}, {"match": "Some*", "mode": null}],
        "exemptions": exemptions,
        "robots.mode": mode,
    });
    let content = settings.to_string().into_bytes();
    let sha256: [u8; 32] = Sha256::digest(&content).into();
    let blob = Blob { sha256, kind: Kind::Settings, content: content.into() };
    BlobStore::of(dir).put(&blob).unwrap();
    hex(&sha256)
}

fn exemption(by: &str, until: &str) -> Value {
    json!({
        "agents": [], "by": by, "crawl_delay": null, "origin": "http://a.example", "paths": [],
        "reason": "contract", "ticket": "OPS-7", "until": until,
    })
}

fn start(lines: &mut Lines, hour: u32, settings: &str) {
    let started = started(NOON.plus(HOUR * hour), "crawl-1", "1.0.0");
    lines.notice(Notice::Started(Started { settings: Some(settings.into()), ..started }));
}

/// The report, made a week after noon, with the evidence in that directory.
fn report_in(dir: &std::path::Path, lines: &Lines, filter: Filter) -> Report {
    let mut survey = Survey::of(filter);
    survey.begin_log(&crate::audit::read::Log::Dir(dir.into()));
    lines.lines.iter().for_each(|line| survey.read_before(line));
    lines.lines.iter().for_each(|line| survey.read(line));
    survey.finish(request(usize::MAX))
}

/// Hours since noon, of each span, and its state.
fn spans(report: &Report) -> Vec<(u64, u64, ServiceState)> {
    let hours = |time: Timestamp| time.since(NOON).as_secs() / 3600;
    let spans = report.service.spans.iter();
    spans.map(|span| (hours(span.since), hours(span.until), span.state)).collect()
}

#[test]
fn the_band_has_each_state_from_when_to_when() {
    use ServiceState::{Enforce, Observe, Off, Unknown};
    let dir = tempfile::tempdir().unwrap();
    let [enforce, observe] = ["enforce", "observe"].map(|mode| keep(dir.path(), mode, &[]));
    let mut lines = Lines::new();
    start(&mut lines, 0, &enforce);
    lines.settings(NOON.plus(HOUR * 2), Some(observe), Vec::new());
    lines.settings(NOON.plus(HOUR * 3), Some(enforce.clone()), Vec::new());
    lines.stopped(NOON.plus(HOUR * 4));
    start(&mut lines, 6, &enforce);
    lines.rule(NOON.plus(HOUR * 7), "http://a.example", "ExampleBot", "/", 2);
    // It was killed: what came after the record is not known.
    start(&mut lines, 9, &enforce);
    lines.stopped(NOON.plus(HOUR * 10));
    let report = report_in(dir.path(), &lines, Filter::default());
    let whole = [
        (0, 2, Enforce),
        (2, 3, Observe),
        (3, 4, Enforce),
        (4, 6, Off),
        (6, 7, Enforce),
        (7, 9, Unknown),
        (9, 10, Enforce),
    ];
    assert_eq!(spans(&report), whole);
    assert!(
        report.service.spans.iter().all(|span| span.exceptions == u64::from(span.state == Enforce))
    );
    assert_eq!(report.service.changed.len(), 2);
    // A period has what was in effect before it began.
    let period = |from: u32, to: u32| Filter {
        since: Some(NOON.plus(HOUR * from)),
        until: Some(NOON.plus(HOUR * to)),
        ..Filter::default()
    };
    let report = report_in(dir.path(), &lines, period(1, 5));
    assert_eq!(spans(&report), [(1, 2, Enforce), (2, 3, Observe), (3, 4, Enforce), (4, 5, Off)]);
    assert_eq!(spans(&report_in(dir.path(), &lines, period(8, 9))), [(8, 9, Unknown)]);
}

#[test]
fn without_evidence_the_mode_is_known_by_its_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut lines = Lines::new();
    lines.started(NOON, "crawl-1", "0.9.0");
    let change = |new: &str| Change { key: "robots.mode".into(), new: new.into(), old: "".into() };
    lines.settings(NOON.plus(HOUR), None, vec![change("observe")]);
    lines.settings(NOON.plus(HOUR * 2), None, Vec::new());
    lines.stopped(NOON.plus(HOUR * 3));
    let report = report_in(dir.path(), &lines, Filter::default());
    use ServiceState::{Observe, On};
    assert_eq!(spans(&report), [(0, 1, On), (1, 3, Observe)]);
}

#[test]
fn each_exemption_is_in_the_register_with_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (used, unused) =
        (exemption("legal", "2027-01-01T00:00:00Z"), exemption("ops", "2027-01-01T00:00:00Z"));
    let short = exemption("press", "2026-11-21T00:00:00Z");
    let all = keep(dir.path(), "enforce", &[used.clone(), unused.clone(), short.clone()]);
    let one = keep(dir.path(), "enforce", &[unused]);
    let mut lines = Lines::new();
    start(&mut lines, 0, &all);
    lines.exempted(NOON.plus(HOUR), "http://a.example", "legal", until("2027-01-01T00:00:00Z"));
    lines.settings(NOON.plus(DAY * 2), Some(one), Vec::new());
    let rows = |filter: Filter| {
        let report = report_in(dir.path(), &lines, filter);
        let rows = report.register.rows.into_iter();
        rows.map(|row| (row.by, row.status, row.used, row.brought_by_seq, row.removed_by_seq))
            .collect::<Vec<_>>()
    };
    use RegisterStatus::{Ended, InForce, Unused};
    let (legal, ops, press) = ("legal".to_owned(), "ops".to_owned(), "press".to_owned());
    let whole = [
        (legal.clone(), Ended, 1, 1, Some(3)),
        (ops.clone(), Unused, 0, 1, None),
        (press, Ended, 0, 1, Some(3)),
    ];
    assert_eq!(rows(Filter::default()), whole);
    let first_day = Filter { until: Some(NOON.plus(HOUR * 2)), ..Filter::default() };
    let standing: Vec<_> = rows(first_day).into_iter().map(|row| (row.1, row.4)).collect();
    assert_eq!(standing, [(InForce, None), (Unused, None), (Unused, None)]);
    let late = Filter { since: Some(NOON.plus(DAY * 3)), ..Filter::default() };
    assert_eq!(rows(late), [(ops, Unused, 0, 1, None)]);
    let elsewhere =
        Filter { origins: vec![Place::parse("b.example").unwrap()], ..Filter::default() };
    assert_eq!(rows(elsewhere), []);
}

fn until(text: &str) -> Timestamp {
    crate::audit::parse_time(text).unwrap()
}
