//! Arguments of time: a duration before now, a day, or a time as records have it (RFC 3339).

use std::time::Duration;

use time::Date;
use time::macros::format_description;

use crate::audit::{parse_time, print_time};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;

/// From when on: of a day, its beginning (UTC).
pub fn since(text: &str) -> Result<Timestamp, String> {
    parse(text, Duration::ZERO, SystemClock.wall())
}

/// Until when: of a day, its end (UTC).
pub fn until(text: &str) -> Result<Timestamp, String> {
    parse(text, DAY, SystemClock.wall())
}

/// The end of a time as it was written: of a day that counts to its end, that day (UTC).
pub fn print_until(until: Timestamp) -> String {
    let is_end_of_day = until.millis() > 0 && until.millis().is_multiple_of(DAY_MILLIS);
    if is_end_of_day {
        print_time(Timestamp::from_millis(until.millis() - DAY_MILLIS))[..10].to_owned()
    } else {
        print_time(until)[..16].replace('T', " ")
    }
}

/// Refuses a period that ends before it begins: nothing would be found in it.
pub fn check(since: Option<Timestamp>, until: Option<Timestamp>) -> Result<(), Failure> {
    match (since, until) {
        (Some(since), Some(until)) if until <= since => {
            let [since, until] = [since, until].map(print_time);
            Err(anyhow::anyhow!("--until, {until}, is not after --since, {since}"))
                .or_exit(Exit::Usage)
        }
        _ => Ok(()),
    }
}

fn parse(text: &str, within_day: Duration, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(length) = humantime::parse_duration(text) {
        let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        return Ok(Timestamp::from_millis(now.millis().saturating_sub(millis)));
    }
    let today = now.millis() - now.millis() % DAY_MILLIS;
    let start_of_day = match text {
        "today" => Some(Timestamp::from_millis(today)),
        "yesterday" => Some(Timestamp::from_millis(today.saturating_sub(DAY_MILLIS))),
        _ => day(text),
    };
    let end_of_day = start_of_day.map(|day| day.plus(within_day));
    end_of_day.or_else(|| moment(text)).ok_or_else(|| {
        "write how long ago (\"2h\", \"7d\"), a day (\"2026-11-20\", \"yesterday\", \"today\") or a moment \
         (\"2026-11-20 12:44\", in UTC, or \"2026-11-20T12:00:00+01:00\")"
            .to_owned()
    })
}

/// The beginning of a day.
fn day(text: &str) -> Option<Timestamp> {
    let day = Date::parse(text, format_description!("[year]-[month]-[day]")).ok()?;
    let seconds = day.midnight().assume_utc().unix_timestamp();
    Some(Timestamp::from_millis(u64::try_from(seconds).ok()?.saturating_mul(1000)))
}

/// RFC 3339, and the same as times are printed: with a blank, without seconds, without a zone, which is UTC then.
fn moment(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_once(['T', 't', ' '])?;
    let (time, zone) = rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len()));
    let seconds = if time.len() == "12:44".len() { ":00" } else { "" };
    let zone = if zone.is_empty() { "Z" } else { zone };
    parse_time(&format!("{day}T{time}{seconds}{zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_printed_as_it_was_written() {
        for (until, text) in [
            ("2027-01-01T00:00:00Z", "2026-12-31"),
            ("2026-12-31T12:00:00Z", "2026-12-31 12:00"),
            ("1970-01-01T00:00:00Z", "1970-01-01 00:00"),
        ] {
            assert_eq!(print_until(parse_time(until).unwrap()), text);
        }
    }

    #[test]
    fn a_moment_is_written_in_several_ways() {
        let noon = parse_time("2026-11-20T12:00:00Z").unwrap();
        for (text, within_day, expected) in [
            ("2h", Duration::ZERO, "2026-11-20T10:00:00Z"),
            ("1d 30m", Duration::ZERO, "2026-11-19T11:30:00Z"),
            ("2026-11-20", Duration::ZERO, "2026-11-20T00:00:00Z"),
            ("2026-11-20", DAY, "2026-11-21T00:00:00Z"),
            ("2026-11-20T13:00:00.5+02:00", DAY, "2026-11-20T11:00:00.5Z"),
            ("today", Duration::ZERO, "2026-11-20T00:00:00Z"),
            ("today", DAY, "2026-11-21T00:00:00Z"),
            ("yesterday", Duration::ZERO, "2026-11-19T00:00:00Z"),
            ("yesterday", DAY, "2026-11-20T00:00:00Z"),
            ("2026-11-23 12:44", Duration::ZERO, "2026-11-23T12:44:00Z"),
            ("2026-11-23 12:44", DAY, "2026-11-23T12:44:00Z"),
            ("2026-11-23T12:44", Duration::ZERO, "2026-11-23T12:44:00Z"),
            ("2026-11-23 12:44:05", Duration::ZERO, "2026-11-23T12:44:05Z"),
            ("2026-11-23 12:44+02:00", Duration::ZERO, "2026-11-23T10:44:00Z"),
            ("2026-11-23 12:44:05.5Z", Duration::ZERO, "2026-11-23T12:44:05.5Z"),
            ("2026-11-23 12:44-00:30", Duration::ZERO, "2026-11-23T13:14:00Z"),
            ("9999y", Duration::ZERO, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse(text, within_day, noon), Ok(parse_time(expected).unwrap()), "{text}");
        }
        for text in [
            "tomorrow",
            "2026-13-01",
            "12:00",
            "",
            "2026-11-23 24:44",
            "2026-11-23 1:44",
            "2026-11-23 ",
        ] {
            assert!(parse(text, DAY, noon).unwrap_err().contains("7d"), "{text}");
        }
    }
}
