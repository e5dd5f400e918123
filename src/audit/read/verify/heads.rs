//! Heads to check a log against: published ones, those that a shared engine has seen, and the one
//! that the proxy notes beside it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::Serialize;

use super::fault::{Fault, Faults, GivenHead, HeadSource, Problem};
use super::roots::{SignedBy, SignerKeys, TreeRoots};
use crate::audit::read::Log;
use crate::audit::{Head, read_head};
use crate::types::LogId;

/// The heads that a log was held against, by their source, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct HeldHeads {
    pub published: Vec<HeldHead>,
    pub witnessed: Vec<HeldHead>,
    pub noted: Option<HeldHead>,
}

/// How a head compares with the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadState {
    /// The log has that line, with that hash.
    Found,
    /// It has another line of that number, or none in its place.
    Other,
    /// It ends before that line.
    CutOff,
    /// The log begins after that line: the hash cannot be checked.
    Removed,
    /// Only a part of the log is there, and the line comes after it: it cannot be checked.
    Beyond,
    /// It is of another log, of which this one says nothing.
    OtherLog,
    /// The log begins after that line; of the lines up to it the hashes are kept, and their root is that
    /// of the checkpoint.
    Kept,
    /// It is a checkpoint that is not signed by a key that was given: it says nothing.
    NotSigned,
}

/// A head, and whether the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldHead {
    #[serde(flatten)]
    pub head: Head,
    /// The log that it is of, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogId>,
    /// Whether the lines up to it have the root of the checkpoint; none of a head alone, and where not all
    /// of them are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_holds: Option<bool>,
    /// Whose signature the checkpoint has; none of a head alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<SignedBy>,
    pub state: HeadState,
}

/// The head in `head.json`. It can be forged together with the log, so it does not count as
/// published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "file", rename_all = "snake_case")]
pub enum NotedHead {
    /// Single files were checked, without the files beside them.
    #[default]
    NotRead,
    Missing,
    Unreadable {
        why: String,
    },
    Read(HeldHead),
}

/// The head noted beside `log`. Read it before the lines: it is never ahead of those.
pub(super) fn noted(log: &Log) -> Result<Head, NotedHead> {
    let Some(dir) = log.noting_dir() else { return Err(NotedHead::NotRead) };
    match read_head(dir) {
        Ok(Some((head, _))) => Ok(head),
        Ok(None) => Err(NotedHead::Missing),
        Err(error) => Err(NotedHead::Unreadable { why: error.to_string() }),
    }
}

/// The heads that a log is held against while its lines are read: those given, then perhaps the one
/// that the proxy notes beside the log.
#[derive(Debug)]
pub(super) struct Heads(Vec<Known>);

/// A head that the log is held against.
#[derive(Debug)]
struct Known {
    given: GivenHead,
    state: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    NotYet,
    Yes,
    Other,
}

impl Heads {
    pub(super) fn new(given: Vec<GivenHead>, noted: Option<Head>) -> Self {
        let noted =
            noted.map(|head| GivenHead { source: HeadSource::Noted, ..GivenHead::published(head) });
        let known = |given| Known { given, state: Seen::NotYet };
        Self(given.into_iter().chain(noted).map(known).collect())
    }

    /// Takes note that the log begins with line `seq`; `prev` is the hash of the line before it, if
    /// that is certain.
    pub(super) fn begin(&mut self, seq: u64, prev: Option<&str>) {
        // A head that was published just before retention removed its line.
        for known in self.0.iter_mut().filter(|known| known.given.head.seq == seq - 1) {
            known.state = prev.map_or(Seen::NotYet, |prev| seen(*prev == known.given.head.hash));
        }
    }

    /// Compares a line with the heads of its number.
    pub(super) fn compare(&mut self, seq: u64, hash: &str) {
        for Known { given: GivenHead { head, .. }, state } in
            self.0.iter_mut().filter(|it| it.given.head.seq == seq)
        {
            // The line may be there twice: one of them is the right one, and the other a fault.
            if *state != Seen::Yes {
                *state = seen(hash == head.hash);
            }
        }
    }

    /// Takes note that a line says of which hash the last line was that retention removed.
    pub(super) fn removed(&mut self, last: &Head) {
        for Known { given, state, .. } in
            self.0.iter_mut().filter(|it| it.given.head.seq == last.seq)
        {
            if *state == Seen::NotYet {
                *state = seen(given.head.hash == last.hash);
            }
        }
    }

    /// The heads, where the log has these `lines` and is called `logs`; faults go to `faults`.
    pub(super) fn end(
        self,
        lines: RangeInclusive<u64>,
        is_part: bool,
        logs: &BTreeSet<LogId>,
        (roots, keys): (&TreeRoots, &SignerKeys),
        faults: &mut Faults,
    ) -> HeldHeads {
        // A part of a log may lack the lines that name it, and an empty one has none.
        let is_known = !logs.is_empty() || *lines.start() == 1;
        let root_holds = |known: &Known| {
            let root = known.given.signed.as_ref()?.checkpoint.root;
            roots.of(known.given.head.seq).map(|found| found == root)
        };
        let signed = |known: &Known| known.given.signed.as_ref().map(|it| keys.judge(it));
        let state = |known: &Known| match known.given.log {
            Some(log) if is_known && !lines.is_empty() && !logs.contains(&log) => {
                HeadState::OtherLog
            }
            _ if !keys.given.is_empty() && signed(known) == Some(SignedBy::Other) => {
                HeadState::NotSigned
            }
            // The head that is noted beside a part is of its last line.
            _ => match known.state(&lines, is_part && known.given.source != HeadSource::Noted) {
                HeadState::Found | HeadState::Removed if root_holds(known) == Some(false) => {
                    HeadState::Other
                }
                HeadState::Removed if root_holds(known) == Some(true) => HeadState::Kept,
                state => state,
            },
        };
        for known in self.0.iter().filter(|known| !self.is_given_too(known)) {
            let (seq, source) = (known.given.head.seq, known.given.source);
            let problem = match state(known) {
                HeadState::Found | HeadState::Removed | HeadState::Kept => continue,
                HeadState::Beyond | HeadState::OtherLog | HeadState::NotSigned => continue,
                HeadState::Other
                    if known.state != Seen::Other && root_holds(known) == Some(false) =>
                {
                    Problem::RootOther { seq }
                }
                HeadState::Other => Problem::HeadOther { seq, source },
                HeadState::CutOff => Problem::HeadCutOff { seq, last: *lines.end(), source },
            };
            faults.push(Fault { at: None, seq: None, id: None, problem });
        }
        let mut all = HeldHeads::default();
        for known in self.0 {
            let (state, signed, root_holds) = (state(&known), signed(&known), root_holds(&known));
            let GivenHead { head, log, source, .. } = known.given;
            let held = HeldHead { head, log, root_holds, signed, state };
            match source {
                HeadSource::Published => all.published.push(held),
                HeadSource::Witnessed => all.witnessed.push(held),
                HeadSource::Noted => all.noted = Some(held),
            }
        }
        all
    }

    /// Whether the head is the noted one, and was also given, where its fault is reported.
    fn is_given_too(&self, known: &Known) -> bool {
        let is_noted = |it: &Known| it.given.source == HeadSource::Noted;
        let is_given = |it: &Known| !is_noted(it) && it.given.head == known.given.head;
        is_noted(known) && self.0.iter().any(is_given)
    }
}

impl Known {
    fn state(&self, lines: &RangeInclusive<u64>, is_part: bool) -> HeadState {
        match self.state {
            Seen::Yes => HeadState::Found,
            Seen::Other => HeadState::Other,
            Seen::NotYet if self.given.head.seq > *lines.end() && is_part => HeadState::Beyond,
            Seen::NotYet if self.given.head.seq > *lines.end() => HeadState::CutOff,
            // Removed with its line, which the chain accounts for, or else that is a fault itself.
            Seen::NotYet if self.given.head.seq < *lines.start() => HeadState::Removed,
            Seen::NotYet => HeadState::Other,
        }
    }
}

const fn seen(is_same: bool) -> Seen {
    if is_same { Seen::Yes } else { Seen::Other }
}
