//! Records over time: buckets that start at a minute and become wider as the time grows that they
//! have to cover, so that their number is bounded and any order of records gives the same.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::events::{Events, EventsByReason};
use crate::audit::{Event, Reason, print_time};
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

/// Outages of one origin that a report holds at one time; the earliest are summed up.
const REPORT_STRETCHES_MAX: usize = 16;

/// From its first moment to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// The union of all that was put in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretches {
    /// Apart from each other, in the order of time.
    open: Vec<Stretch>,
    /// The sum of the earliest stretches, once there are more than are kept apart. Records come in
    /// the order of time, so that nothing is added to those any more.
    settled: Sum,
}

/// The sum of stretches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// Their lengths together.
    pub total: Duration,
    pub longest: Option<Stretch>,
}

impl Stretch {
    /// How long it lasted.
    pub fn length(self) -> Duration {
        self.to.since(self.from)
    }
}

impl Stretches {
    /// Adds a stretch; one that ends before it begins is none.
    pub fn add(&mut self, stretch: Stretch) {
        let Stretch { mut from, mut to } = stretch;
        if to < from {
            return;
        }
        let start = self.open.partition_point(|other| other.to < from);
        let end = start + self.open[start..].partition_point(|other| other.from <= to);
        if let [first, ..] = self.open[start..end] {
            (from, to) = (from.min(first.from), to.max(self.open[end - 1].to));
        }
        self.open.splice(start..end, [Stretch { from, to }]);
        if self.open.len() > REPORT_STRETCHES_MAX {
            self.settled.add(self.open.remove(0));
        }
    }

    /// The sum of all stretches.
    pub fn sum(&self) -> Sum {
        let mut sum = self.settled;
        self.open.iter().for_each(|stretch| sum.add(*stretch));
        sum
    }
}

impl Sum {
    /// The earliest of equally long ones is the longest.
    fn add(&mut self, stretch: Stretch) {
        self.count += 1;
        self.total += stretch.length();
        if self.longest.is_none_or(|longest| longest.length() < stretch.length()) {
            self.longest = Some(stretch);
        }
    }
}

/// As a record has it.
pub(super) fn print_moment<S: Serializer>(
    moment: &Timestamp,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&print_time(*moment))
}

/// As above, or `null`.
pub(super) fn print_option<S: Serializer>(
    moment: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match moment {
        Some(moment) => print_moment(moment, serializer),
        None => serializer.serialize_none(),
    }
}
