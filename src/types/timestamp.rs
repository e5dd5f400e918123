//! A date as a number, for code that does no I/O.
//!
//! Policy times outlive the process (a restart must not forget since when an origin's robots.txt
//! has been unreachable), so they are dates, never readings of a monotonic clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, up to the end of the year 9999: the dates that HTTP
/// (RFC 9110 §5.6.7) and RFC 3339 can express. Later dates saturate: a wrong clock can make a
/// timestamp wrong, but cannot make the program or its dependencies panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Timestamp(u64);

impl From<u64> for Timestamp {
    fn from(millis: u64) -> Self {
        Self::from_millis(millis)
    }
}

impl From<Timestamp> for u64 {
    fn from(moment: Timestamp) -> Self {
        moment.0
    }
}

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// From milliseconds since 1970; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        if millis < Self::LAST.0 { Self(millis) } else { Self::LAST }
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// This time plus `by`; saturates.
    pub fn plus(self, by: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The time until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

/// Parses `1m 30s`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Some(number) = bare_number(text) {
        return Err(format!(
            "\"{number}\" has no unit; write \"{number}s\" for seconds, or m, h, d"
        ));
    }
    match humantime::parse_duration(text) {
        Ok(length) if length.is_zero() => Err("must be longer than nothing".into()),
        Ok(length) if length.subsec_nanos() % 1_000_000 != 0 => Err(format!(
            "\"{text}\" is finer than a millisecond; write whole ones, as in \"1500ms\""
        )),
        Ok(length) => Ok(length),
        Err(_) => Err(format!(
            "\"{text}\" is not a length of time; write it as \"10s\", \"5m\" or \"24h\""
        )),
    }
}

/// Parses a length of time that may be nothing, `0s`.
pub fn parse_delay(text: &str) -> Result<Duration, String> {
    if text == "0s" { Ok(Duration::ZERO) } else { parse_duration(text) }
}

/// The number in a `text` that is one and has no unit: seconds to one writer and minutes to another,
/// so that it is refused.
pub fn bare_number(text: &str) -> Option<&str> {
    let number = text.trim();
    let is_number = number.parse::<f64>().is_ok()
        && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number.then_some(number)
}

/// Prints a length of time that may be nothing.
pub fn print_delay(length: &Duration) -> String {
    if length.is_zero() { "0s".into() } else { print_duration(length) }
}

/// Prints a duration in the largest exact unit.
pub fn print_duration(length: &Duration) -> String {
    const UNITS: [(u128, &str); 4] =
        [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let millis = length.as_millis();
    // A day is 24h, as in the RFC; from two days on people count in days.
    let exact = UNITS
        .iter()
        .find(|(unit, name)| millis.is_multiple_of(*unit) && (*name != "d" || millis / unit > 1));
    match exact {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}
