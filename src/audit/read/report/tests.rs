//! The survey as a whole, and its parts, each against a plain reckoning of the same.

mod bounds;
pub mod log;
mod service;

use proptest::prelude::*;

use super::*;
use crate::audit::Reason;
use crate::audit::read::filter::Filter;
use crate::audit::read::filter::Place;
use log::{DAY, HOUR, Log as Lines, NOON};

fn report_of(lines: &[Vec<u8>], period: Filter) -> Report {
    let mut survey = Survey::of(period);
    lines.iter().for_each(|line| survey.read(line));
    survey.finish(request(usize::MAX))
}

fn request(rows_max: usize) -> Request {
    Request {
        rows_max,
        made_at: NOON.plus(DAY * 7),
        origins: Vec::new(),
        agents: Vec::new(),
        clients: Vec::new(),
        verified: None,
    }
}

#[test]
fn records_are_counted_by_what_they_have_in_common() {
    let mut log = Lines::new();
    log.rule(NOON, "http://a.example", "ExampleBot", "/private/", 12);
    log.rule(NOON.plus(HOUR), "http://a.example", "ExampleBot", "/private/", 12);
    log.rule(NOON.plus(HOUR), "http://b.example", "OtherBot", "/", 2);
    let report = report_of(&log.lines, Filter::default());
    assert_eq!(report.records.all, 3);
    assert_eq!(report.records.by_reason[&Reason::DisallowRule], 3);
    let origins: Vec<_> =
        report.by_origin.rows.iter().map(|row| (&*row.key.origin, row.records)).collect();
    assert_eq!(origins, [("http://a.example", 2), ("http://b.example", 1)]);
    let agents: Vec<_> = report.by_agent.rows.iter().map(|row| row.key.agent.as_deref()).collect();
    assert_eq!(agents, [Some("ExampleBot"), Some("OtherBot")]);
    let rule = &report.by_rule.rows[0];
    assert_eq!((rule.key.line, &*rule.key.pattern, rule.records), (12, "/private/", 2));
    assert_eq!(report.log.head, Some(log.head));
    assert!(report.missing.is_nothing());
    let versions = &report.robots_txt[0].versions;
    assert_eq!((versions.len(), versions[0].first, versions[0].last), (1, NOON, NOON.plus(HOUR)));
}

#[test]
fn only_the_period_counts_and_only_what_is_wanted() {
    let mut log = Lines::new();
    for hour in 0..10 {
        log.rule(NOON.plus(HOUR * hour), "http://a.example", "ExampleBot", "/", 2);
        log.rule(NOON.plus(HOUR * hour), "http://b.example", "ExampleBot", "/", 2);
    }
    let period = Filter {
        since: Some(NOON.plus(HOUR * 2)),
        until: Some(NOON.plus(HOUR * 5)),
        ..Filter::default()
    };
    assert_eq!(report_of(&log.lines, period.clone()).records.all, 6);
    let mut survey =
        Survey::of(Filter { origins: vec![Place::parse("b.example").unwrap()], ..period });
    log.lines.iter().for_each(|line| survey.read(line));
    let report = survey.finish(Request { origins: vec!["b.example".into()], ..request(10) });
    assert_eq!(report.records.all, 3);
    assert_eq!(
        report.decided, None,
        "all origins are counted together, so nothing can be said of one"
    );
    assert_eq!(report.log.head, Some(log.head), "the head is that of the log, not of the period");
    let starts: Vec<_> = report.over_time.buckets.iter().map(|bucket| bucket.start).collect();
    assert_eq!((starts.first(), starts.len()), (Some(&NOON.plus(HOUR * 2)), 3 * 12));
}

#[test]
fn an_outage_is_counted_once_however_many_records_tell_of_it() {
    let mut log = Lines::new();
    for minute in [10, 20, 50] {
        log.unreachable(NOON.plus(HOUR / 60 * minute), "http://a.example", NOON);
    }
    log.unreachable(NOON.plus(HOUR * 7), "http://a.example", NOON.plus(HOUR * 5));
    log.unreachable(NOON.plus(HOUR), "http://b.example", NOON);
    let report = report_of(&log.lines, Filter::default());
    let [a, b] = &*report.unreachable.rows else { panic!("{:?}", report.unreachable) };
    assert_eq!((&*a.origin, a.seconds, a.outages, a.records), ("http://a.example", 170 * 60, 2, 4));
    assert_eq!((a.longest_seconds, a.longest_since), (2 * 3600, Some(NOON.plus(HOUR * 5))));
    assert_eq!((&*b.origin, b.seconds), ("http://b.example", 3600));
    let late = Filter { since: Some(NOON.plus(HOUR * 6)), until: None, ..Filter::default() };
    let clipped = report_of(&log.lines, late).unreachable;
    assert_eq!(
        (clipped.rows.len(), clipped.rows[0].seconds),
        (1, 3600),
        "before the period nothing counts"
    );
}

#[test]
fn an_outage_of_some_agents_names_them_and_one_of_all_does_not() {
    let mut log = Lines::new();
    for agent in ["B courtesy", "A courtesy", "B courtesy"] {
        log.unreachable_for(NOON, "http://a.example", NOON, Some(agent));
        log.unreachable_for(NOON, "http://b.example", NOON, Some(agent));
    }
    log.unreachable(NOON, "http://b.example", NOON);
    let report = report_of(&log.lines, Filter::default()).unreachable;
    let agents = report.rows.iter().map(|row| row.agents.join(", "));
    assert_eq!(agents.collect::<Vec<_>>(), ["A courtesy, B courtesy", ""]);
}

#[test]
fn what_is_missing_is_said() {
    let mut log = Lines::new();
    log.rule(NOON, "http://a.example", "ExampleBot", "/", 2);
    log.pruned(NOON, 0);
    log.gap(NOON.plus(HOUR), NOON.plus(HOUR * 2), 17);
    log.torn(NOON.plus(HOUR * 2), 99);
    log.rule(NOON.plus(HOUR * 3), "http://a.example", "ExampleBot", "/", 2);
    let (lines, lost) = (&mut log.lines, 17);
    lines.push(b"not a line".to_vec());
    lines.remove(0);
    let missing = report_of(lines, Filter::default()).missing;
    assert_eq!((missing.lost_records, missing.gaps, missing.largest_gaps[0].lost), (lost, 1, lost));
    assert_eq!((missing.torn, missing.torn_bytes), (1, 99));
    assert_eq!((missing.absent_lines, missing.unreadable_lines), (1, 1));
    assert!(!missing.is_nothing());
    let later = Filter { since: Some(NOON.plus(HOUR * 3)), until: None, ..Filter::default() };
    let missing = report_of(lines, later).missing;
    assert_eq!((missing.lost_records, missing.torn), (0, 0), "the gap had ended before the period");
    let within =
        Filter { since: Some(NOON.plus(HOUR + HOUR / 2)), until: None, ..Filter::default() };
    assert_eq!(
        report_of(lines, within).missing.lost_records,
        lost,
        "some of it may be of the period"
    );
}

#[test]
fn lines_that_retention_removed_are_not_absent() {
    let mut log = Lines::new();
    for _ in 0..5 {
        log.rule(NOON, "http://a.example", "ExampleBot", "/", 2);
    }
    log.pruned(NOON.plus(DAY), 3);
    let missing = report_of(&log.lines[3..], Filter::default()).missing;
    assert_eq!((missing.pruned_up_to, missing.absent_lines), (3, 0));
}

#[test]
fn all_that_was_decided_comes_from_what_the_proxy_notes() {
    let mut log = Lines::new();
    log.totals(NOON, NOON.plus(HOUR), 90, 10);
    log.totals(NOON.plus(HOUR * 3), NOON.plus(HOUR * 4), 900, 100);
    let decided = report_of(&log.lines, Filter::default()).decided.unwrap();
    assert_eq!(
        (decided.allowed, decided.denied, decided.by_path, decided.by_host, decided.by_parent),
        (990, 110, 1100, 0, 330)
    );
    assert_eq!((decided.since, decided.until), (Some(NOON), Some(NOON.plus(HOUR * 4))));
    assert_eq!(decided.counted_seconds, 2 * 3600);
}

#[test]
fn what_was_asked_of_each_site_is_the_sum_of_its_lines() {
    let mut log = Lines::new();
    for hour in 0..3 {
        log.counts(NOON.plus(HOUR * hour), Some("http://a.example"), [10, 1]);
        log.counts(NOON.plus(HOUR * hour), Some("http://b.example"), [100, 0]);
        log.counts(NOON.plus(HOUR * hour), None, [5, 0]);
    }
    let fetched = report_of(&log.lines, Filter::default()).fetched;
    let rows: Vec<_> =
        fetched.rows.iter().map(|row| (&*row.origin, row.asked, row.forwarded)).collect();
    assert_eq!(rows, [("http://b.example", 306, 6), ("http://a.example", 39, 6)]);
    assert_eq!((fetched.sites, fetched.others), (2, 21));
    assert_eq!(
        (fetched.rows[1].allowed, fetched.rows[1].denied, fetched.rows[1].bytes),
        (30, 3, 3000)
    );
    let later = Filter { since: Some(NOON.plus(HOUR)), ..Filter::default() };
    assert_eq!(report_of(&log.lines, later).fetched.rows[0].asked, 204);
    let one = Filter { origins: vec![Place::parse("a.example").unwrap()], ..Filter::default() };
    let fetched = report_of(&log.lines, one).fetched;
    assert_eq!((fetched.sites, fetched.others), (1, 0), "nothing of the others");
}

#[test]
fn decisions_of_a_killed_process_are_counted_up_to_its_last_pulse() {
    let (mut log, minute) = (Lines::new(), |minutes: u32| NOON.plus(HOUR / 60 * minutes));
    log.started(minute(0), "pod-1", "0.1.0");
    log.pulse(minute(0), minute(5), 6, 0);
    log.totals(minute(0), minute(60), 90, 9);
    log.pulse(minute(60), minute(65), 3, 1);
    log.pulse(minute(60), minute(70), 30, 1);
    let running = report_of(&log.lines, Filter::default());
    assert_eq!(running.decided.map(|it| (it.allowed, it.denied)), Some((120, 10)));
    assert_eq!(running.missing.killed, 0, "it may be running");
    log.started(minute(73), "pod-1", "0.1.0");
    log.totals(minute(73), minute(80), 9, 0);
    log.stopped(minute(80));
    log.started(minute(90), "pod-1", "0.1.0");
    let report = report_of(&log.lines, Filter::default());
    let decided = report.decided.unwrap();
    assert_eq!((decided.allowed, decided.denied, decided.counted_seconds), (129, 10, 77 * 60));
    let kill = Kill { counted_until: minute(70), started_at: minute(73) };
    assert_eq!((report.missing.killed, report.missing.kills), (1, vec![kill]));
}

#[test]
fn exemptions_are_told_apart_by_who_allowed_what_and_for_how_long() {
    let mut log = Lines::new();
    let made_at = NOON.plus(DAY * 7);
    for (until, uses) in [(DAY, 3), (DAY * 20, 2), (DAY * 90, 1)] {
        for hour in 0..uses {
            log.exempted(NOON.plus(HOUR * hour), "http://a.example", "legal", NOON.plus(until));
        }
    }
    let report = report_of(&log.lines, Filter::default());
    assert_eq!(report.made_at, made_at);
    let uses: Vec<_> =
        report.exemptions.rows.iter().map(|row| (row.records, row.last, row.status)).collect();
    assert_eq!(
        uses,
        [
            (3, Some(NOON.plus(HOUR * 2)), ExemptionStatus::Expired),
            (2, Some(NOON.plus(HOUR)), ExemptionStatus::ExpiresSoon),
            (1, Some(NOON), ExemptionStatus::Running),
        ]
    );
}

#[test]
fn an_empty_log_has_a_report() {
    let report = report_of(&[], Filter::default());
    assert_eq!((report.records.all, report.log.head, report.over_time.buckets.len()), (0, None, 0));
}

/// A few of each kind, so that they meet.
fn arbitrary_log() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let line = (0u8..6, 0u32..2000, 0usize..3, 0usize..3, 1u32..4);
    prop::collection::vec(line, 1..60).prop_map(|drawn| {
        let mut log = Lines::new();
        for (kind, minute, site, agent, number) in drawn {
            let time = NOON.plus(HOUR / 60 * minute);
            let origin = ["http://a.example", "https://b.example", "http://c.example:8080"][site];
            let agent = ["ExampleBot", "OtherBot", "archive"][agent];
            match kind {
                0 => log.unreachable(time, origin, NOON),
                1 => log.exempted(time, origin, agent, NOON.plus(DAY * number)),
                2 => log.totals(NOON, time, u64::from(minute), 1),
                3 => log.gap(NOON, time, u64::from(number)),
                _ => log.rule(time, origin, agent, "/*?q=", number),
            }
        }
        log.lines
    })
}

proptest! {
    // Each case makes a log with its chain.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_way_of_counting_comes_to_the_same(lines in arbitrary_log(), rows_max in 0usize..5) {
        let mut survey = Survey::of(Filter::default());
        lines.iter().for_each(|line| survey.read(line));
        let report = survey.finish(request(rows_max));
        let all = report.records.all;
        prop_assert_eq!(report.records.by_event.values().sum::<u64>(), all);
        prop_assert_eq!(report.records.by_reason.values().sum::<u64>(), all);
        prop_assert_eq!(report.records.by_path + report.records.by_host, all);
        prop_assert_eq!(sum(&report.by_origin, |row| row.records), all);
        prop_assert_eq!(sum(&report.by_agent, |row| row.records), all);
        prop_assert_eq!(sum(&report.by_client, |row| row.records), all);
        prop_assert_eq!(sum(&report.by_profile, |row| row.records), all);
        let by_rule = report.records.by_reason.get(&Reason::DisallowRule).copied().unwrap_or_default();
        prop_assert_eq!(sum(&report.by_rule, |row| row.records), by_rule);
        let over_time = report.over_time.buckets.iter().flat_map(|bucket| bucket.by_reason.values());
        prop_assert_eq!(over_time.sum::<u64>(), all);
    }

    #[test]
    fn the_order_of_lines_does_not_matter(
        (one, other) in arbitrary_log().prop_flat_map(|log| (Just(log.clone()), Just(log).prop_shuffle()))
    ) {
        // When a process was on depends on the order of its lines.
        let counted = |lines: &[Vec<u8>]| Report {
            service: Timeline::default(),
            ..report_of(lines, Filter::default())
        };
        prop_assert_eq!(counted(&one), counted(&other));
    }
}

fn sum<R>(top: &Top<R>, records: impl Fn(&R) -> u64) -> u64 {
    top.others + top.rows.iter().map(records).sum::<u64>()
}
