//! Lengths of time as people write them: `10s`, `1m 30s`.

use std::time::Duration;

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
