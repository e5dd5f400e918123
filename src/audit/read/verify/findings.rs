//! The result of a verification.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Serialize, Serializer};

use super::fault::{At, Faults};
use super::heads::{HeadState, HeldHead, NotedHead};
use super::roots::SignedBy;
use crate::audit::record::verifier_key::VerifierKey;
use crate::audit::{FAULTS_DESCRIBED_MAX, Head, print_time};
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub faults: Faults,
    /// Unusual things that are no faults.
    pub notes: Notes,
    /// Files of the log that were read.
    pub files: u64,
    /// Lines that were read, notices included.
    pub lines: u64,
    /// Records among them.
    pub records: u64,
    /// The first and the last time of a line.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Pieces of evidence that records name; none where they were not to be looked at.
    pub evidence: Option<usize>,
    pub notices: Notices,
    /// Bytes at the end that a running writer is about to end.
    pub unfinished: Option<usize>,
    /// The identities that its lines, and `head.json` beside it, name: one, but where a log was begun anew by a
    /// version that could not read the former.
    pub logs: BTreeSet<LogId>,
    /// The checkpoints that are lines of the log.
    pub checkpoints: Checkpoints,
    /// The last line; none in an empty log.
    pub head: Option<Head>,
    /// How it begins, where it was taken for a part of a log.
    pub part: Option<Part>,
    /// The published heads that were given, in that order.
    pub published: Vec<HeldHead>,
    /// Whether a shared engine was asked for the heads that it has seen.
    pub is_engine_asked: bool,
    /// The heads of this log, and of others of its proxies, that a shared engine has seen, of those that were given.
    pub witnessed: Vec<HeldHead>,
    /// The head that the proxy notes beside the log.
    pub noted: NotedHead,
}

/// How a part of a log begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The number of its first line.
    pub first: u64,
    /// The hash of the line before, as its first line names it; none where that is damaged.
    pub prev: Option<String>,
}

/// What the checkpoints in a log show.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checkpoints {
    /// The keys that the log names.
    pub keys: BTreeSet<VerifierKey>,
    /// Lines before the first one that was read, of which the hash alone is kept.
    pub lines_kept_by_hash: u64,
    /// The signer of the last of them.
    pub signed: Option<SignedBy>,
    /// The last line that is under one that holds.
    pub up_to: Option<u64>,
}

/// Counts of notices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Notices {
    /// How often records could not be written.
    pub gaps: u64,
    /// Records that could not be written.
    pub lost: u64,
    /// Ends that were set aside after a crash.
    pub torn: u64,
    /// How often old lines were removed.
    pub pruned: u64,
    /// Counts of decisions, which the proxy notes from time to time.
    pub totals: u64,
    /// The same between them, of which a process that was killed has left the last.
    pub pulses: u64,
    /// Checkpoints that a command has taken.
    pub published: u64,
    /// How often a visitor looked or acted by the console.
    pub operated: u64,
    /// How often the proxy was started.
    pub started: u64,
    /// Changes of settings, or of files that they name.
    pub settings: u64,
    /// How often the proxy has signed where the log stands.
    pub checkpoints: u64,
    /// How often it was stopped cleanly.
    pub stopped: u64,
    /// How often it was started again without that.
    pub not_stopped: u64,
    /// Of changes of robots.txt files.
    pub changed: u64,
    /// Delays that robots.txt files ask for.
    pub paced: u64,
    /// Files that decide, and the lack of one.
    pub files: u64,
    /// Counts of what an agent asked of a site.
    pub counts: u64,
    /// Lines of allowed requests.
    pub allowed: u64,
    /// Pieces of evidence that could not be kept.
    pub evidence_lost: u64,
    /// How often the proxy has found, by the shared engine, that the log had been cut off or written anew.
    pub rewound: u64,
    /// Lines of a kind that this version does not know.
    pub unknown: u64,
}

impl Findings {
    /// Whether the log holds, and under which head: the first sentence about a verification.
    pub fn verdict(&self) -> String {
        let is = |state: HeadState| move |held: &HeldHead| held.state == state;
        match (self.faults.count, self.published_up_to(), self.witnessed_up_to()) {
            (1, ..) => "The log does not hold: one fault".into(),
            (2.., ..) => {
                let count = self.faults.count;
                format!("The log does not hold: {count} faults")
            }
            (0, Some(Head { seq, .. }), _) => {
                format!("The log holds, up to line {seq} under a published head")
            }
            (0, None, Some(Head { seq, .. })) if self.published.is_empty() => {
                let others = self.witnessed.iter().any(is(HeadState::OtherLog));
                let other = if others { "; it has seen another log of its proxy, too" } else { "" };
                format!(
                    "The log holds, up to line {seq} under a head that the shared engine has seen{other}"
                )
            }
            (0, None, _) if self.published.is_empty() && self.is_engine_asked => {
                let others = self.witnessed.iter().any(is(HeadState::OtherLog));
                let of = if others { ", only of another log of its proxy" } else { "" };
                format!("The log holds in itself; the shared engine has seen no head of it{of}")
            }
            (0, None, _) if self.published.is_empty() => {
                "The log holds in itself; no published head was given".into()
            }
            (0, None, _) if self.published.iter().all(is(HeadState::OtherLog)) => {
                "The log holds in itself; every published head that was given is of another log"
                    .into()
            }
            (0, None, _) if self.published.iter().any(is(HeadState::Kept)) => {
                "The log holds in itself; a published checkpoint is that of lines that were removed, of which the \
                 hashes are kept"
                    .into()
            }
            (0, None, _) if self.published.iter().any(is(HeadState::NotSigned)) => {
                "The log holds in itself; no published checkpoint of it that was given is signed by the key that was \
                 given"
                    .into()
            }
            (0, None, _) if self.published.iter().any(is(HeadState::Beyond)) => {
                "The log holds in itself; no published head that was given is of a line in it"
                    .into()
            }
            (0, None, _) => {
                "The log holds in itself; it begins after every published head that was given"
                    .into()
            }
        }
    }

    /// Whether heads were asked for, and none is there to hold the log against.
    pub fn is_without_heads(&self) -> bool {
        let is_other =
            |held: &HeldHead| matches!(held.state, HeadState::OtherLog | HeadState::NotSigned);
        let none_found = self.published_up_to().is_none() && self.witnessed_up_to().is_none();
        let no_published = !self.published.is_empty() && self.published.iter().all(is_other);
        none_found && (self.is_engine_asked || no_published)
    }

    /// The last line that is under a head that a shared engine has seen.
    pub fn witnessed_up_to(&self) -> Option<&Head> {
        let found = self.witnessed.iter().filter(|held| held.state == HeadState::Found);
        found.map(|held| &held.head).max_by_key(|head| head.seq)
    }

    /// The last line that is under a published head.
    pub fn published_up_to(&self) -> Option<&Head> {
        let found = self.published.iter().filter(|held| held.state == HeadState::Found);
        found.map(|held| &held.head).max_by_key(|head| head.seq)
    }
}

/// One thing that is unusual, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    #[serde(flatten)]
    pub at: At,
    /// The line's number; none where the file as a whole is meant.
    pub seq: Option<u64>,
    #[serde(rename = "note", serialize_with = "in_words")]
    pub what: Unusual,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusual {
    /// The file was compressed by another program; its lines are checked as usual.
    OtherGzip,
    EvidenceOfOtherGzip {
        path: String,
    },
    /// It has the lines of the file that was read; or, where that is being written, the first of them.
    Double {
        read: String,
        is_whole: bool,
    },
    /// The first line of which something does not hold that no hash shows.
    Odd {
        oddity: Oddity,
        /// How often in the whole log.
        count: u64,
    },
    /// The line is older than the one before it.
    Backwards {
        time: Timestamp,
        before: At,
        time_before: Timestamp,
        /// How often in the whole log.
        count: u64,
    },
}

/// What does not hold of the lines that a proxy writes, and no hash shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// A record behind `stopped`, with no `started` between.
    AfterStopped,
    /// The log ends without `stopped`, and no process writes it.
    NotStopped,
    /// A record of another proxy than the one that was started.
    OtherNode { started: String, named: String },
    /// A record before it has the same identifier.
    SameId,
    /// The time in the identifier is far from that of the line.
    IdOfOtherTime { id: Timestamp, line: Timestamp },
    /// Totals whose time does not begin where that of those before has ended.
    TotalsApart { since: Timestamp, before: Timestamp },
    /// Totals of more time that have less.
    TotalsLess,
    /// Retention removed lines while the settings keep all.
    PrunedThoughKept,
}

/// The first notes, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    pub described: Vec<Note>,
    /// All, those included that are not described.
    pub count: u64,
}

impl Notes {
    pub(super) fn push(&mut self, note: Note) {
        self.count += 1;
        if self.described.len() < FAULTS_DESCRIBED_MAX {
            self.described.push(note);
        }
    }
}

fn in_words<S: Serializer>(what: &Unusual, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(what)
}

/// `FILE:12: number 12: …`.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.at)?;
        if let Some(seq) = self.seq {
            write!(f, "number {seq}: ")?;
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for Unusual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherGzip => {
                f.write_str("compressed by another program, which changes none of its lines")
            }
            Self::EvidenceOfOtherGzip { path } => {
                write!(
                    f,
                    "its evidence was compressed by another program, with the same content: {path}"
                )
            }
            Self::Double { read, is_whole } => {
                let lines = if *is_whole { "the same lines" } else { "the same first lines" };
                write!(f, "not read: it has {lines} as {read}, which was read")
            }
            Self::Odd { oddity, count } => {
                oddity.fmt(f)?;
                if *count > 1 { write!(f, "; {count} times in the whole log") } else { Ok(()) }
            }
            Self::Backwards { time, before, time_before, count } => {
                let (time, time_before) = (print_time(*time), print_time(*time_before));
                write!(
                    f,
                    "its time {time} is earlier than {time_before} of {before}: a clock was set back, "
                )?;
                f.write_str("or a time was changed")?;
                if *count > 1 { write!(f, "; {count} times in the whole log") } else { Ok(()) }
            }
        }
    }
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AfterStopped => f.write_str(
                "a record behind the end of the proxy that wrote before it, and no start is between",
            ),
            Self::NotStopped => f.write_str(
                "the log ends here without stopped, and no process writes it: the proxy was killed, its end \
                 was cut off, or it is a copy of a log that was being written",
            ),
            Self::OtherNode { started, named } => {
                write!(f, "it names the proxy {named}, and {started} was started")
            }
            Self::SameId => f.write_str("a record before it has the same id"),
            Self::IdOfOtherTime { id, line } => {
                let (id, line) = (print_time(*id), print_time(*line));
                write!(f, "its time is {line}, and its id was made at {id}")
            }
            Self::TotalsApart { since, before } => {
                let (since, before) = (print_time(*since), print_time(*before));
                write!(
                    f,
                    "totals since {since}, and those before it end at {before}: others are missing between"
                )
            }
            Self::TotalsLess => {
                f.write_str("totals that are less than those so far, before it, of the same time")
            }
            Self::PrunedThoughKept => f.write_str(
                "retention is said to have removed lines, and the settings in effect keep all of them",
            ),
        }
    }
}
