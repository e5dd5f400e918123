//! The logs of a report on several: each has a chain of its own.

use serde::Serialize;

use super::time_member::print_option;
use crate::audit::Head;
use crate::types::timestamp::Timestamp;

/// The log as it was when it was read, from the period's beginning to its own end: ties the report to
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Log {
    pub head: Option<Head>,
    /// The number of its first line in the chain.
    pub first_seq: Option<u64>,
    /// Lines that were read.
    pub lines: u64,
    /// The time of its earliest line.
    #[serde(serialize_with = "print_option")]
    pub since: Option<Timestamp>,
    /// The time of its latest.
    #[serde(serialize_with = "print_option")]
    pub until: Option<Timestamp>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamedLog {
    /// Its directory.
    pub dir: String,
    #[serde(flatten)]
    pub log: Log,
}

impl Log {
    /// The sum of several logs. A chain has a head and a first line, several have none.
    pub(super) fn together(logs: &[NamedLog]) -> Self {
        let all = || logs.iter().map(|named| &named.log);
        Self {
            head: None,
            first_seq: None,
            lines: all().map(|log| log.lines).fold(0, u64::saturating_add),
            since: all().filter_map(|log| log.since).min(),
            until: all().filter_map(|log| log.until).max(),
        }
    }
}

impl Log {
    /// Takes in a line of the log.
    pub(super) fn pass(&mut self, seq: u64, time: Timestamp, hash: &str) {
        self.lines += 1;
        self.first_seq = Some(self.first_seq.map_or(seq, |first| first.min(seq)));
        widen(&mut self.since, &mut self.until, time);
        if self.head.as_ref().is_none_or(|head| head.seq < seq) {
            self.head = Some(Head { hash: hash.to_owned(), seq });
        }
    }

    /// Lines that are not there, though they were not pruned. Of a log that was read `from_start`,
    /// those before the first line, too.
    pub(super) fn absent(&self, pruned_up_to: u64, from_start: bool) -> u64 {
        let (Some(first), Some(head)) = (self.first_seq, &self.head) else { return 0 };
        let before = if from_start { (first - 1).saturating_sub(pruned_up_to) } else { 0 };
        before + (head.seq - first + 1).saturating_sub(self.lines)
    }
}

/// Extends the period from `first` to `last` by `time`.
pub(super) fn widen(first: &mut Option<Timestamp>, last: &mut Option<Timestamp>, time: Timestamp) {
    *first = Some(first.map_or(time, |first| first.min(time)));
    *last = Some(last.map_or(time, |last| last.max(time)));
}
