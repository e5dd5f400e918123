//! What holds of the lines of a log that a proxy has written, and that no hash shows: who rewrites a chain has to
//! think of it. What does not hold is a note and no fault, for a clock or a copy may be the cause.

use std::collections::{HashSet, VecDeque};
use std::mem::discriminant;
use std::time::Duration;

use ulid::Ulid;

use super::fault::At;
use super::findings::{Note, Oddity, Unusual};
use crate::audit::record::Node;
use crate::audit::{Content, Notice, Totals};
use crate::types::timestamp::Timestamp;

/// Identifiers that are remembered, to find one that stands twice: those of some hours, in a megabyte.
const IDS_REMEMBERED_MAX: usize = 16_384;

/// How far the time in an identifier may be from that of its line: both are taken at once.
const ID_TIME_SLACK: Duration = Duration::from_secs(60);

/// The lines read so far.
#[derive(Debug, Default)]
pub(super) struct Invariants {
    process: Process,
    ids: RecentIds,
    /// The number of the last line.
    seq: u64,
    /// The first of each kind, and how many there are.
    notes: Vec<(At, u64, Oddity, u64)>,
}

/// What is known of the process whose lines are read.
#[derive(Debug, Default)]
struct Process {
    has_stopped: bool,
    is_running: bool,
    node: Option<Node>,
    /// A record of another node, until it is clear that no change of settings follows that gives this name.
    other_node: Option<(At, u64, Node)>,
    /// Where the time of its next totals begins.
    counted_since: Option<Timestamp>,
    /// Its last totals of that time: allowed, denied, by path, by host.
    counted: [u64; 4],
    /// Whether its settings keep all lines.
    keeps_all: bool,
    /// Lines were removed all the same, unless it is clear that by then others held: retention does not wait for
    /// the line that says so.
    pruned: Option<(At, u64)>,
}

impl Invariants {
    /// The next line that can be relied on. `keeps_all`: whether the settings that it names keep all lines.
    pub(super) fn line(&mut self, content: &Content, at: &At, keeps_all: Option<bool>) {
        let seq = content.seq();
        if seq != self.seq + 1 {
            // What was between is not known.
            self.process = Process::default();
        }
        self.seq = seq;
        match content {
            Content::Record(record) => {
                self.record(at, seq, &record.id, record.time, record.node.as_ref());
            }
            Content::Notice(Notice::Allowed(allowed)) => {
                self.record(at, seq, &allowed.id, allowed.time, allowed.node.as_ref());
            }
            Content::Notice(notice) => self.notice(notice, at, keeps_all),
        }
    }

    /// `is_written`: a process writes the log, or only a part of it is there.
    pub(super) fn end(mut self, last: Option<At>, is_written: bool) -> Vec<Note> {
        self.settle();
        if let Some(at) = last.filter(|_| self.process.is_running && !is_written) {
            self.note(&at, self.seq, Oddity::NotStopped);
        }
        let note = |(at, seq, oddity, count)| {
            let what = Unusual::Odd { oddity, count };
            Note { at, seq: Some(seq), what }
        };
        self.notes.into_iter().map(note).collect()
    }

    fn record(&mut self, at: &At, seq: u64, id: &str, time: Timestamp, node: Option<&Node>) {
        if self.process.has_stopped {
            self.note(at, seq, Oddity::AfterStopped);
        }
        if let Some(node) = node {
            let started = self.process.node.get_or_insert_with(|| node.clone());
            if started != node && self.process.other_node.is_none() {
                self.process.other_node = Some((at.clone(), seq, node.clone()));
            }
        }
        let Ok(id) = Ulid::from_string(id) else { return };
        let of_id = Timestamp::from_millis(id.timestamp_ms());
        if of_id.plus(ID_TIME_SLACK) < time || time.plus(ID_TIME_SLACK) < of_id {
            self.note(at, seq, Oddity::IdOfOtherTime { id: of_id, line: time });
        }
        if !self.ids.insert(id) {
            self.note(at, seq, Oddity::SameId);
        }
    }

    fn notice(&mut self, notice: &Notice, at: &At, keeps_all: Option<bool>) {
        match notice {
            Notice::Started(started) => {
                let (node, keeps_all) = (started.node.clone(), keeps_all.unwrap_or_default());
                self.process.keeps_all = keeps_all;
                self.settle();
                self.process = Process { node, keeps_all, is_running: true, ..Process::default() };
            }
            Notice::SettingsChanged(changed) => {
                let node = changed.node.as_ref();
                self.process.other_node.take_if(|(_, _, other)| Some(&*other) == node);
                self.process.keeps_all = keeps_all.unwrap_or_default();
                self.settle();
                self.process.node = changed.node.clone();
            }
            Notice::Stopped(_) => {
                (self.process.has_stopped, self.process.is_running) = (true, false);
            }
            Notice::Totals(totals) => {
                self.totals(totals, at);
                (self.process.counted_since, self.process.counted) = (Some(totals.time), [0; 4]);
            }
            Notice::Pulse(pulse) => {
                self.totals(pulse, at);
                self.process.counted_since = Some(pulse.since);
            }
            Notice::Pruned(_) if self.process.keeps_all => {
                self.process.pruned.get_or_insert((at.clone(), notice.seq()));
            }
            _ => {}
        }
    }

    fn totals<E>(&mut self, totals: &Totals<E>, at: &At) {
        let Totals { allowed, denied, by_path, by_host, since, seq, .. } = *totals;
        let counted = [allowed, denied, by_path, by_host];
        match self.process.counted_since {
            Some(before) if before != since => {
                self.note(at, seq, Oddity::TotalsApart { since, before });
            }
            Some(_)
                if counted.iter().zip(self.process.counted).any(|(now, before)| *now < before) =>
            {
                self.note(at, seq, Oddity::TotalsLess);
            }
            _ => {}
        }
        self.process.counted = counted;
    }

    /// Notes what no line has explained before other settings hold.
    fn settle(&mut self) {
        if let Some((at, seq)) = self.process.pruned.take().filter(|_| self.process.keeps_all) {
            self.note(&at, seq, Oddity::PrunedThoughKept);
        }
        let Process { node, other_node, .. } = &mut self.process;
        if let (Some(started), Some((at, seq, named))) = (node.clone(), other_node.take()) {
            let (started, named) = (started.to_string(), named.to_string());
            self.note(&at, seq, Oddity::OtherNode { started, named });
        }
    }

    fn note(&mut self, at: &At, seq: u64, oddity: Oddity) {
        let is_same = |(_, _, other, _): &&mut (_, _, Oddity, _)| {
            discriminant(other) == discriminant(&oddity)
        };
        match self.notes.iter_mut().find(is_same) {
            Some((.., count)) => *count += 1,
            None => self.notes.push((at.clone(), seq, oddity, 1)),
        }
    }
}

/// The last identifiers.
#[derive(Debug, Default)]
struct RecentIds {
    known: HashSet<Ulid>,
    order: VecDeque<Ulid>,
}

impl RecentIds {
    /// False: it is among them.
    fn insert(&mut self, id: Ulid) -> bool {
        if !self.known.insert(id) {
            return false;
        }
        if self.order.len() == IDS_REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(id);
        true
    }
}
