use proptest::prelude::*;

use super::super::{Dialect, RobotsTxt};
use super::*;

const ALL: Obeyed = Obeyed { crawl_delay: true, request_rate: true };
const NOON: TimeOfDay = TimeOfDay(DAY_MS / 2);

fn delay(text: &str, token: Option<&str>, now: TimeOfDay) -> Option<(u128, u32)> {
    let robots = RobotsTxt::parse(text.as_bytes(), &Dialect::RFC9309);
    let asked = robots.pace(robots.group(token).as_ref()).delay(ALL, now)?;
    Some((asked.delay.as_millis(), asked.line))
}

#[test]
fn values_are_seconds_or_rates() {
    for (line, expected) in [
        ("crawl-delay: 10", Some(10_000)),
        ("crawl-delay: .5", Some(500)),
        ("crawl-delay: 4.", Some(4_000)),
        ("crawl-delay: .", None),
        ("crawl-delay: 0.0001", Some(1)),
        ("crawl-delay: 1.2340", Some(1_234)),
        ("crawl-delay: 4294968", Some(u128::from(u32::MAX))),
        ("crawl-delay: 2 secs", Some(2_000)),
        ("crawl-delay: 2sec ond", None),
        ("request-rate: 1/10", Some(10_000)),
        ("request-rate: 2/1H", Some(1_800_000)),
        ("request-rate: 1/1d", Some(86_400_000)),
        ("request-rate: 1/10x", None),
        ("request-rate: 1/10 1800-2000", None),
        ("request-rate: 1/10 0800-2000", Some(10_000)),
        ("request-rate: 1/10 0800 2000", Some(10_000)),
        ("request-rate: 1/100800-2000", None),
        ("request-rate: 1/10 0800-2060", None),
        ("request-rate: /10", None),
        ("request-rate: 1 / 10", None),
    ] {
        let found = delay(&format!("user-agent: *\n{line}\n"), None, NOON);
        assert_eq!(found.map(|(ms, _)| ms), expected, "{line}");
    }
}

#[test]
fn a_window_may_pass_midnight_and_its_end_is_outside() {
    let at = |hour: u32, minute: u32| TimeOfDay((hour * 60 + minute) * MINUTE_MS);
    let night = Window { begin: at(22, 0).0, end: at(4, 0).0 };
    for (now, begins_in) in
        [(at(22, 0), 0), (at(3, 59), 0), (at(4, 0), 18 * 60), (at(21, 59), 1), (at(0, 0), 0)]
    {
        assert_eq!(night.begins_in(now), begins_in * MINUTE_MS, "{now:?}");
    }
    let day = |text: &[u8]| window(text);
    assert_eq!(day(b"0000-2400"), Some(Window { begin: 0, end: DAY_MS }));
    for bad in [&b"2400-0100"[..], b"0400-0400", b"04000845", b"4-8", b"0400-", b"-0400"] {
        assert_eq!(day(bad), None, "{}", bad.escape_ascii());
    }
}

#[test]
fn of_several_windows_the_next_begins() {
    let text = "user-agent: *\nvisit-time: 0400-0500\nvisit-time: 1300-1400\n";
    let robots = RobotsTxt::parse(text.as_bytes(), &Dialect::RFC9309);
    let pace = robots.pace(robots.group(None).as_ref());
    let outside = pace.outside_visit_time(NOON).expect("it is outside");
    assert_eq!((outside.begins_in, outside.line), (Duration::from_secs(3600), 3));
    assert_eq!(pace.outside_visit_time(TimeOfDay(4 * 60 * MINUTE_MS)), None);
}

#[test]
fn two_names_of_one_line_are_two_groups() {
    let text = "user-agent: MJ12bot\ncrawl-delay: 20\nuser-agent: mj\ncrawl-delay: 3\n";
    assert_eq!(delay(text, Some("MJ12bot"), NOON), Some((20_000, 2)));
    assert_eq!(delay(text, Some("mj"), NOON), Some((20_000, 2)), "the line names it, too");
}

#[test]
fn more_rates_than_are_kept_hold_all_day() {
    let mut text = String::from("user-agent: *\n");
    for rate in 0..2 * WINDOWS_MAX {
        text.push_str(&format!("request-rate: 1/{} 0100-0200\n", rate + 1));
    }
    assert_eq!(
        delay(&text, None, NOON),
        Some((2_000 * WINDOWS_MAX as u128, 1 + 2 * WINDOWS_MAX as u32))
    );
}

#[test]
fn a_value_that_is_not_understood_is_a_line_without_effect() {
    let text = b"user-agent: *\ncrawl-delay: ten\nvisit-time: always\nrequest-rate: 10\n";
    let robots = RobotsTxt::parse(text, &Dialect::RFC9309);
    let lines: Vec<_> = robots.ignored_lines().map(|ignored| ignored.line).collect();
    assert_eq!(lines, [2, 3, 4]);
}

/// Each record in a group of its own, and every name in each group: in proportion to the file.
#[test]
fn a_hostile_file_is_read_in_time() {
    let runs: String =
        (0..10_000).map(|run| format!("user-agent: a\ncrawl-delay: {run}\n")).collect();
    assert_eq!(delay(&runs, Some("a"), NOON), Some((9_999_000, 20_000)));
    let names: String =
        (0..5_000).map(|name| format!("user-agent: n{}\n", "x".repeat(name % 50))).collect();
    let records = "request-rate: 1/10 0000-2400\n".repeat(10_000);
    assert_eq!(delay(&(names + &records), Some("nx"), NOON).map(|(ms, _)| ms), Some(10_000));
}

proptest! {
    /// Any value is read without a panic, and a delay is never less than what is written.
    #[test]
    fn any_value_has_a_result(value in "\\PC{0,20}", whole in 0..100_000_u32, fraction in 0..10_000_u32) {
        let _ = delay(&format!("user-agent: *\ncrawl-delay: {value}\nrequest-rate: {value}\nvisit-time: {value}\n"), None, NOON);
        let written = f64::from(whole) + f64::from(fraction) / 10_000.0;
        let found = delay(&format!("user-agent: *\ncrawl-delay: {whole}.{fraction:04}\n"), None, NOON);
        let found = found.map_or(0, |(ms, _)| ms) as f64;
        prop_assert!(found + 1e-6 >= written * 1000.0 && found < written * 1000.0 + 1.0 + 1e-6);
    }
}
