//! Stretches of time, of which those that touch are one: what many reports of one outage add up to.

use std::time::Duration;

use crate::types::timestamp::Timestamp;

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
