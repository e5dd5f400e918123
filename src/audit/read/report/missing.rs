//! Records known to be missing from a log, and so from the report.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use super::series::{print_moment, print_option};
use crate::audit::{Content, Gap, Head, Notice, Pruned, Torn};
use crate::types::timestamp::Timestamp;

/// Gaps in the log that a report names; the rest are counted.
const REPORT_GAPS_MAX: usize = 20;

/// Processes that were killed which a report names, the last; the rest are counted.
const REPORT_KILLS_MAX: usize = 20;

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
    killed: u64,
    kills: VecDeque<Kill>,
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
    /// How often a process ended without saying so: it was started again, or another after it.
    pub killed: u64,
    /// The last of them, in the order of the log.
    pub kills: Vec<Kill>,
}

/// A process that was killed: what it decided between its last count and its end is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kill {
    /// Its decisions are counted until then.
    #[serde(serialize_with = "print_moment")]
    pub counted_until: Timestamp,
    /// When the log goes on with another process.
    #[serde(serialize_with = "print_moment")]
    pub started_at: Timestamp,
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

    /// Adds a process that ended without saying so.
    pub fn kill(&mut self, kill: Kill) {
        self.killed += 1;
        self.kills.push_back(kill);
        if self.kills.len() > REPORT_KILLS_MAX {
            self.kills.pop_front();
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
            killed: self.killed,
            kills: self.kills.into(),
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
            && self.killed == 0
    }
}

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
    /// Lines are not there, before its first and between them, and that is no damage.
    #[serde(skip)]
    pub(super) has_gaps: bool,
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
            has_gaps: false,
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
        let (Some(first), Some(head), false) = (self.first_seq, &self.head, self.has_gaps) else {
            return 0;
        };
        let before = if from_start { (first - 1).saturating_sub(pruned_up_to) } else { 0 };
        before + (head.seq - first + 1).saturating_sub(self.lines)
    }
}

/// Extends the period from `first` to `last` by `time`.
pub(super) fn widen(first: &mut Option<Timestamp>, last: &mut Option<Timestamp>, time: Timestamp) {
    *first = Some(first.map_or(time, |first| first.min(time)));
    *last = Some(last.map_or(time, |last| last.max(time)));
}

/// Proxies, and versions of the program, that a report names of a log.
const REPORT_NODES_MAX: usize = 100;

/// The proxies that wrote the lines of the period: a few are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Writers {
    /// Their names (`audit.node`), in order; at most `REPORT_NODES_MAX`.
    pub nodes: BTreeSet<String>,
    /// Versions of courtesy that were started in the period, in order; at most as many.
    pub versions: BTreeSet<String>,
    /// Lines that name none, as earlier versions wrote them.
    pub unnamed_lines: u64,
}

impl Writers {
    pub(super) fn pass(&mut self, content: &Content) {
        match content.node() {
            None => self.unnamed_lines += 1,
            Some(node) => note(&mut self.nodes, node.as_str()),
        }
        if let Content::Notice(Notice::Started(started)) = content {
            note(&mut self.versions, &started.version);
        }
    }
}

/// Adds `text`. In a full set, the first texts in order stay, so that the order of lines does not matter.
fn note(texts: &mut BTreeSet<String>, text: &str) {
    if texts.contains(text) {
        return;
    }
    texts.insert(text.to_owned());
    if texts.len() > REPORT_NODES_MAX {
        texts.pop_last();
    }
}
