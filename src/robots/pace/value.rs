//! Reads the values of Crawl-delay, Request-rate and Visit-time.

use super::hours::{DAY_MS, MINUTE_MS, Window};

/// A value of one of the three records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Delay(u32),
    Rate(u32, Option<Window>),
    Visit(Window),
}

/// The value of a record for the pace; the inner option is `None` where it is not understood
/// (D-PBAD), the outer one where the record is another.
pub(super) fn record_value(key: &[u8], value: &[u8]) -> Option<Option<Value>> {
    let parse: fn(&[u8]) -> Option<Value> = match key {
        key if key.eq_ignore_ascii_case(b"crawl-delay") => crawl_delay,
        key if key.eq_ignore_ascii_case(b"request-rate") => request_rate,
        key if key.eq_ignore_ascii_case(b"visit-time") => visit_time,
        _ => return None,
    };
    Some(parse(value))
}

/// Seconds with or without a fraction (D-PVALUE), and perhaps their unit (D-PUNIT), in milliseconds,
/// rounded up (D-PROUND).
fn crawl_delay(value: &[u8]) -> Option<Value> {
    let (whole, rest) = digits(value);
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => digits(rest),
        None => (&b""[..], rest),
    };
    let unit = rest.trim_ascii_start();
    let units: [&[u8]; 6] = [b"", b"s", b"sec", b"secs", b"second", b"seconds"];
    let is_seconds = units.iter().any(|known| unit.eq_ignore_ascii_case(known));
    if whole.is_empty() && fraction.is_empty() || !is_seconds {
        return None;
    }
    Some(Value::Delay(number(whole).saturating_mul(1000).saturating_add(thousandths(fraction))))
}

/// `n/t`, with a unit of time and hours perhaps (D-PRATE).
fn request_rate(value: &[u8]) -> Option<Value> {
    let (count, rest) = digits(value);
    let (time, rest) = digits(rest.strip_prefix(b"/")?);
    let (unit_ms, rest) = match rest {
        [b's' | b'S', rest @ ..] => (1000, rest),
        [b'm' | b'M', rest @ ..] => (MINUTE_MS, rest),
        [b'h' | b'H', rest @ ..] => (60 * MINUTE_MS, rest),
        [b'd' | b'D', rest @ ..] => (DAY_MS, rest),
        rest => (1000, rest),
    };
    let window = match rest.trim_ascii_start() {
        b"" => None,
        hours if hours.len() < rest.len() => Some(window(hours)?),
        _ => return None,
    };
    let (count, time) = (number(count), number(time));
    if count == 0 || time == 0 {
        return None;
    }
    Some(Value::Rate(time.saturating_mul(unit_ms).div_ceil(count), window))
}

/// `HHMM-HHMM` (D-PWINDOW).
fn visit_time(value: &[u8]) -> Option<Value> {
    window(value).map(Value::Visit)
}

pub(super) fn window(value: &[u8]) -> Option<Window> {
    let (begin, rest) = digits(value);
    let end = rest.trim_ascii_start();
    let is_apart = end.len() < rest.len();
    let end = match end.strip_prefix(b"-") {
        Some(end) => end.trim_ascii_start(),
        None if is_apart => end,
        None => return None,
    };
    let (begin, end) = (time_of_day(begin)?, time_of_day(end)?);
    (begin != end && begin < DAY_MS).then_some(Window { begin, end })
}

/// `HHMM`, up to 2400.
fn time_of_day(text: &[u8]) -> Option<u32> {
    let (&[a, b, c, d], true) = (text, text.iter().all(u8::is_ascii_digit)) else { return None };
    let two = |high: u8, low: u8| u32::from(high - b'0') * 10 + u32::from(low - b'0');
    let (hour, minute) = (two(a, b), two(c, d));
    let time = (hour * 60 + minute) * MINUTE_MS;
    (minute < 60 && time <= DAY_MS).then_some(time)
}

/// The digits that `text` begins with, and the rest.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn number(digits: &[u8]) -> u32 {
    digits
        .iter()
        .fold(0_u32, |sum, digit| sum.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}

/// The fraction of one in thousandths, rounded up.
fn thousandths(fraction: &[u8]) -> u32 {
    let digit = |at: usize| fraction.get(at).map_or(0, |digit| u32::from(digit - b'0'));
    let is_more = fraction.iter().skip(3).any(|digit| *digit != b'0');
    digit(0) * 100 + digit(1) * 10 + digit(2) + u32::from(is_more)
}
