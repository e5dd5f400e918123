//! Records over time: buckets that start at a minute and become wider as the time grows that they
//! have to cover, so that their number is bounded and any order of records gives the same.

use std::collections::BTreeMap;

use serde::Serialize;

use super::events::{Events, EventsByReason};
use super::time_member::print_moment;
use crate::audit::{Event, Reason};
use crate::types::timestamp::Timestamp;

/// Buckets of time in which a report counts before they become wider.
const REPORT_BUCKETS_MAX: usize = 4096;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Widths in milliseconds, each a multiple of the one before.
const WIDTHS: [u64; 10] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    7 * DAY,
    28 * DAY,
    364 * DAY,
    36_400 * DAY,
];

/// The end of the year 9999: later times are not counted.
const LAST: u64 = 253_402_300_799_999;

/// Weeks begin on Monday, and 1970-01-01 was a Thursday.
const OFFSET: u64 = 3 * DAY;

/// How many records there were of each reason.
pub type ByReason = BTreeMap<Reason, u64>;

/// How many records there were when.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The place in `WIDTHS`.
    width: usize,
    buckets: BTreeMap<u64, EventsByReason>,
}

/// Records over time, as a report has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverTime {
    /// The length of a bucket.
    pub bucket_seconds: u64,
    /// Without gaps, in the order of time.
    pub buckets: Vec<Bucket>,
}

/// The records of one length of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    #[serde(serialize_with = "print_moment")]
    pub start: Timestamp,
    pub by_reason: ByReason,
    /// The same records, by reason and event.
    pub events_by_reason: EventsByReason,
}

impl Series {
    /// Counts an event of `time`.
    pub fn add(&mut self, time: Timestamp, reason: Reason, event: Event) {
        let bucket = self.buckets.entry(self.place(time)).or_default();
        bucket.entry(reason).or_default().add(Events::one(event));
        while self.buckets.len() > REPORT_BUCKETS_MAX && self.width + 1 < WIDTHS.len() {
            self.widen();
        }
    }

    /// From the first bucket to the last, or from `since` to `until` where they are given; at most
    /// `buckets_max` of them.
    pub fn over(
        mut self,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
        buckets_max: usize,
    ) -> OverTime {
        let span = loop {
            let first =
                since.map(|since| self.place(since)).or(self.buckets.keys().next().copied());
            // The period ends before `until`.
            let until = until.map(|until| Timestamp::from_millis(until.millis().saturating_sub(1)));
            let last =
                until.map(|until| self.place(until)).or(self.buckets.keys().next_back().copied());
            let (Some(first), Some(last)) = (first, last) else { break None };
            let is_last = self.width + 1 == WIDTHS.len();
            if is_last || last.saturating_sub(first) < buckets_max as u64 {
                break Some(first..=last);
            }
            self.widen();
        };
        let bucket = |place: u64| {
            let events_by_reason = self.buckets.get(&place).cloned().unwrap_or_default();
            Bucket {
                start: Timestamp::from_millis((place * self.millis()).saturating_sub(OFFSET)),
                by_reason: events_by_reason
                    .iter()
                    .map(|(reason, events)| (*reason, events.all()))
                    .collect(),
                events_by_reason,
            }
        };
        let buckets = span.into_iter().flatten().map(bucket).collect();
        OverTime { bucket_seconds: self.millis() / 1000, buckets }
    }

    const fn millis(&self) -> u64 {
        WIDTHS[self.width]
    }

    fn place(&self, time: Timestamp) -> u64 {
        (time.millis().min(LAST) + OFFSET) / self.millis()
    }

    fn widen(&mut self) {
        let narrow = self.millis();
        self.width += 1;
        let factor = self.millis() / narrow;
        for (place, counts) in std::mem::take(&mut self.buckets) {
            let wide = self.buckets.entry(place / factor).or_default();
            counts
                .into_iter()
                .for_each(|(reason, events)| wide.entry(reason).or_default().add(events));
        }
    }
}
