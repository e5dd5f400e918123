//! Records known to be missing from a log, and so from the report.

use serde::Serialize;

use super::logs::Log;
use super::time_member::print_moment;
use crate::audit::{Gap, Pruned, Torn};
use crate::types::timestamp::Timestamp;

/// Gaps in the log that a report names; the rest are counted.
const REPORT_GAPS_MAX: usize = 20;

/// Losses by the notices of a log.
#[derive(Debug, Default)]
pub struct Losses {
    gaps: Vec<LostRecords>,
    lost: u64,
    times: u64,
    torn: u64,
    torn_bytes: u64,
    pruned_up_to: u64,
    /// Lines that do not belong to the log.
    pub unreadable: u64,
    /// Of the logs before this one: lines removed, and lines that are not there.
    pruned_before: u64,
    absent_before: u64,
    /// Lines whose text does not match their hash.
    pub changed: u64,
}

/// Losses, as a report has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Records that could not be written in the period.
    pub lost_records: u64,
    /// How often that happened.
    pub gaps: u64,
    /// The gaps that lost most, in the order of time.
    pub largest_gaps: Vec<LostRecords>,
    /// How often the end of the log was no whole line, as after a crash, and was set aside.
    pub torn: u64,
    /// Bytes of those ends.
    #[serde(rename = "torn_octets")]
    pub torn_bytes: u64,
    /// Lines removed from the beginning of the log, being older than they are kept: up to this one. Of several
    /// logs: how many.
    pub pruned_up_to: u64,
    /// Lines that the log should have by its numbers, and does not.
    pub absent_lines: u64,
    /// Lines that do not belong to this log.
    pub unreadable_lines: u64,
    /// Lines whose text does not match their hash. They are not counted otherwise.
    pub changed_lines: u64,
}

/// Records that could not be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostRecords {
    #[serde(serialize_with = "print_moment")]
    pub since: Timestamp,
    /// When it could be written again.
    #[serde(serialize_with = "print_moment")]
    pub until: Timestamp,
    /// How many.
    pub lost: u64,
    pub why: String,
}

impl Losses {
    /// Adds a gap.
    pub fn gap(&mut self, gap: &Gap) {
        self.times += 1;
        self.lost = self.lost.saturating_add(gap.lost);
        self.gaps.push(LostRecords {
            since: gap.since,
            until: gap.time,
            lost: gap.lost,
            why: gap.why.clone(),
        });
        if self.gaps.len() > REPORT_GAPS_MAX {
            let smallest =
                self.gaps.iter().enumerate().min_by_key(|(_, gap)| (gap.lost, gap.since));
            let smallest = smallest.map(|(at, _)| at).unwrap_or_default();
            self.gaps.remove(smallest);
        }
    }

    /// Adds an incomplete line.
    pub fn torn(&mut self, torn: &Torn) {
        self.torn += 1;
        self.torn_bytes = self.torn_bytes.saturating_add(torn.bytes);
    }

    /// Adds removed files.
    pub fn pruned(&mut self, pruned: &Pruned) {
        self.pruned_up_to = self.pruned_up_to.max(pruned.last_seq);
    }

    /// One of several logs has been read.
    pub fn end_log(&mut self, log: &Log, from_start: bool) {
        let pruned = std::mem::take(&mut self.pruned_up_to);
        self.pruned_before = self.pruned_before.saturating_add(pruned);
        self.absent_before = self.absent_before.saturating_add(log.absent(pruned, from_start));
    }

    /// The sum of all that was added.
    pub fn finish(mut self, log: &Log, from_start: bool) -> Missing {
        self.gaps.sort_by_key(|gap| (gap.since, gap.until, gap.lost));
        Missing {
            lost_records: self.lost,
            gaps: self.times,
            largest_gaps: self.gaps,
            torn: self.torn,
            torn_bytes: self.torn_bytes,
            pruned_up_to: self.pruned_before.saturating_add(self.pruned_up_to),
            absent_lines: self
                .absent_before
                .saturating_add(log.absent(self.pruned_up_to, from_start)),
            unreadable_lines: self.unreadable,
            changed_lines: self.changed,
        }
    }
}

impl Missing {
    /// Whether nothing is.
    pub const fn is_nothing(&self) -> bool {
        self.gaps == 0
            && self.torn == 0
            && self.pruned_up_to == 0
            && self.absent_lines == 0
            && self.unreadable_lines == 0
            && self.changed_lines == 0
    }
}
