//! What a file asks of the pace of a crawler: Crawl-delay, Request-rate and Visit-time. No standard
//! defines these records (RFC 9309 §2.2.4 permits them).

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::select::Naming;

/// A record that asks for time between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayRecord {
    /// `Crawl-delay: 10`: so many seconds.
    CrawlDelay,
    /// `Request-rate: 1/10m`: so many requests in so much time, at some hours perhaps.
    RequestRate,
}

impl DelayRecord {
    /// The word for it in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CrawlDelay => "crawl_delay",
            Self::RequestRate => "request_rate",
        }
    }
}

/// The time between two requests that a file asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDelay {
    /// The time between two requests.
    pub delay: Duration,
    /// The record that asks for it.
    pub record: DelayRecord,
    /// 1-based.
    pub line: u32,
}

/// A moment outside of the hours in which a file allows visits (Visit-time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideVisitTime {
    /// The time until the next of them begins.
    pub begins_in: Duration,
    /// The line of that record, 1-based.
    pub line: u32,
}

/// Which records of a file are obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obeyed {
    /// `Crawl-delay`.
    pub crawl_delay: bool,
    /// `Request-rate`.
    pub request_rate: bool,
}

/// What a file asks of the crawlers of one group. A view.
#[derive(Clone, Copy, Debug)]
pub struct Pace<'a> {
    delays: &'a PaceRecords,
    visits: &'a PaceRecords,
}

/// The records of a run of user-agent lines (D-PRUN).
#[derive(Debug)]
struct Run {
    /// The first user-agent line.
    from: u32,
    /// The first record, which no user-agent line of the run follows.
    until: u32,
    records: PaceRecords,
}

/// The pace records of a file.
#[derive(Debug, Default)]
pub(super) struct Paces {
    outside_groups: PaceRecords,
    /// In the order of the lines.
    runs: Vec<Run>,
    /// The merged records of each group that has any, by the line and length of its first name.
    groups: Vec<((u32, u32), PaceRecords)>,
}

impl Pace<'_> {
    /// The longest delay that is asked for at `now`, among the obeyed records (D-PMAX). `None`: no
    /// delay is asked for.
    pub fn delay(&self, obeyed: Obeyed, now: TimeOfDay) -> Option<GroupDelay> {
        let crawl_delay = self.delays.crawl_delay.filter(|_| obeyed.crawl_delay);
        let crawl_delay = crawl_delay.map(|(ms, line)| (ms, DelayRecord::CrawlDelay, line));
        let rates = self.delays.rates.iter().filter(|_| obeyed.request_rate);
        let rates = rates.filter(|rate| rate.window.is_none_or(|window| window.contains(now)));
        let rates = rates.map(|rate| (rate.delay_ms, DelayRecord::RequestRate, rate.line));
        crawl_delay
            .into_iter()
            .chain(rates)
            .filter(|(ms, ..)| *ms > 0)
            // Of equals, the first.
            .reduce(|longest, next| if next.0 > longest.0 { next } else { longest })
            .map(|(ms, record, line)| GroupDelay {
                delay: Duration::from_millis(ms.into()),
                record,
                line,
            })
    }

    /// When the next Visit-time begins. `None`: `now` is within one, or the group has none.
    pub fn outside_visit_time(&self, now: TimeOfDay) -> Option<OutsideVisitTime> {
        let waits = self.visits.visits.iter().map(|(window, line)| (window.begins_in(now), *line));
        waits.min_by_key(|(ms, _)| *ms).filter(|(ms, _)| *ms > 0).map(|(ms, line)| {
            OutsideVisitTime { begins_in: Duration::from_millis(ms.into()), line }
        })
    }
}

impl Paces {
    /// Adds a record of the run that begins at `agents_from`, or of no group; others than the three
    /// are passed over. False: its value is not understood (D-PBAD).
    pub(super) fn add(
        &mut self,
        line: u32,
        agents_from: Option<u32>,
        key: &[u8],
        value: &[u8],
    ) -> bool {
        let Some(value) = record_value(key, value) else { return true };
        let Some(value) = value else { return false };
        let in_run = self.runs.last_mut().filter(|run| Some(run.from) == agents_from);
        match (in_run, agents_from) {
            (Some(run), _) => run.records.add(value, line),
            (None, None) => self.outside_groups.add(value, line),
            (None, Some(from)) => {
                let mut records = PaceRecords::default();
                records.add(value, line);
                self.runs.push(Run { from, until: line, records });
            }
        }
        true
    }

    /// To be called once, after the last line, with the names of each group.
    pub(super) fn finish<'a>(&mut self, groups: impl Iterator<Item = &'a [Naming]>) {
        if self.runs.is_empty() {
            return;
        }
        let merged = groups.filter_map(|namings| {
            let mut records = PaceRecords::default();
            namings.iter().filter_map(|naming| self.of_line(naming.line)).for_each(|run| {
                records.merge(run);
            });
            Some((key(namings.first()?), records)).filter(|(_, records)| *records != NOTHING)
        });
        let mut merged: Vec<_> = merged.collect();
        merged.sort_unstable_by_key(|(key, _)| *key);
        self.groups = merged;
        self.groups.shrink_to_fit();
        self.runs = Vec::new();
    }

    /// What is asked of the group with this first name, or of those without a group (D-PGLOBAL).
    #[inline]
    pub(super) fn of_group(&self, first: Option<&Naming>) -> Pace<'_> {
        let own = first.and_then(|first| {
            let found = self.groups.binary_search_by_key(&key(first), |(key, _)| *key).ok()?;
            Some(&self.groups[found].1)
        });
        let own = own.unwrap_or(&NOTHING);
        let has_delay = own.crawl_delay.is_some() || !own.rates.is_empty();
        Pace {
            delays: if has_delay { own } else { &self.outside_groups },
            visits: if own.visits.is_empty() { &self.outside_groups } else { own },
        }
    }

    /// Whether the file asks nothing of any crawler.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.outside_groups == NOTHING
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let groups = self.groups.iter().map(|(_, records)| records.heap_bytes());
        self.groups.capacity() * size_of::<((u32, u32), PaceRecords)>()
            + groups.sum::<usize>()
            + self.outside_groups.heap_bytes()
    }

    /// The records of the run that a user-agent line belongs to.
    fn of_line(&self, line: u32) -> Option<&PaceRecords> {
        let after = self.runs.partition_point(|run| run.from <= line);
        let run = self.runs[..after].last()?;
        (line < run.until).then_some(&run.records)
    }
}

/// What identifies a group: two names may stand on one line.
fn key(first: &Naming) -> (u32, u32) {
    (first.line, first.name.length())
}

/// A value of one of the three records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Delay(u32),
    Rate(u32, Option<Window>),
    Visit(Window),
}

/// The value of a record for the pace; the inner option is `None` where it is not understood
/// (D-PBAD), the outer one where the record is another.
fn record_value(key: &[u8], value: &[u8]) -> Option<Option<Value>> {
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

fn window(value: &[u8]) -> Option<Window> {
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

/// The hours of one record that are kept for a group: a file that lists more is read as if the
/// further rates held all day, and as if no further window allowed visits.
const WINDOWS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    delay_ms: u32,
    line: u32,
    /// `None`: all day.
    window: Option<Window>,
}

/// The understood records of one or more runs of user-agent lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PaceRecords {
    /// The longest Crawl-delay, with its line; zero if all are zero.
    crawl_delay: Option<(u32, u32)>,
    rates: Vec<Rate>,
    visits: Vec<(Window, u32)>,
}

/// Of a group without any record.
static NOTHING: PaceRecords =
    PaceRecords { crawl_delay: None, rates: Vec::new(), visits: Vec::new() };

impl PaceRecords {
    fn add(&mut self, value: Value, line: u32) {
        match value {
            Value::Delay(ms) => {
                if self.crawl_delay.is_none_or(|(longest, _)| ms > longest) {
                    self.crawl_delay = Some((ms, line));
                }
            }
            Value::Rate(delay_ms, window) => self.add_rate(Rate { delay_ms, line, window }),
            Value::Visit(window) => {
                if self.visits.len() < WINDOWS_MAX {
                    self.visits.push((window, line));
                }
            }
        }
    }

    /// Of rates that hold all day, the longest delay is enough.
    fn add_rate(&mut self, rate: Rate) {
        let window = rate.window.filter(|_| self.rates.len() < WINDOWS_MAX);
        let all_day = self.rates.iter_mut().find(|known| known.window.is_none());
        match (window, all_day) {
            (None, Some(known)) if known.delay_ms < rate.delay_ms => {
                *known = Rate { window, ..rate };
            }
            (None, Some(_)) => {}
            (window, _) => self.rates.push(Rate { window, ..rate }),
        }
    }

    fn merge(&mut self, other: &Self) {
        if let Some((ms, line)) = other.crawl_delay {
            self.add(Value::Delay(ms), line);
        }
        other.rates.iter().for_each(|rate| self.add_rate(*rate));
        other.visits.iter().for_each(|(window, line)| self.add(Value::Visit(*window), *line));
    }

    fn heap_bytes(&self) -> usize {
        self.rates.capacity() * size_of::<Rate>()
            + self.visits.capacity() * size_of::<(Window, u32)>()
    }
}

const MINUTE_MS: u32 = 60_000;
const DAY_MS: u32 = 24 * 60 * MINUTE_MS;

/// A moment of the day, in milliseconds since midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(u32);

/// The hours of a day from one minute to another, which is outside; may pass midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    begin: u32,
    end: u32,
}

impl TimeOfDay {
    /// The time of day so many milliseconds after midnight UTC, of any day.
    pub fn from_millis(millis: u64) -> Self {
        Self(u32::try_from(millis % u64::from(DAY_MS)).unwrap_or_default())
    }
}

impl Window {
    fn contains(self, now: TimeOfDay) -> bool {
        if self.begin < self.end {
            (self.begin..self.end).contains(&now.0)
        } else {
            now.0 >= self.begin || now.0 < self.end
        }
    }

    /// Milliseconds until it begins; 0: `now` is within it.
    fn begins_in(self, now: TimeOfDay) -> u32 {
        if self.contains(now) { 0 } else { (self.begin + DAY_MS - now.0) % DAY_MS }
    }
}
