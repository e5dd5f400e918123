//! What a file asks of the pace of a crawler: Crawl-delay, Request-rate and Visit-time. No standard
//! defines these records (RFC 9309 §2.2.4 permits them); `docs/reference/pace.md` lists how they
//! are read.

mod hours;
mod records;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

use super::select::Naming;
pub use hours::TimeOfDay;
use records::{NOTHING, PaceRecords};

/// A record that asks for time between two requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayRecord {
    CrawlDelay,
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
    pub crawl_delay: bool,
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
        let Some(value) = value::record_value(key, value) else { return true };
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
