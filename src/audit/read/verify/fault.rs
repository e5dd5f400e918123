//! Faults of a log and their places.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use crate::audit::checkpoint::SignedCheckpoint;
use crate::audit::{Event, FAULTS_DESCRIBED_MAX, Head, LineError, RecordedCounts};
use crate::types::LogId;

/// The place of a line, by file and not by its number in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    pub file: Arc<Path>,
    /// Counted from 1; none where the file as a whole is meant.
    pub line: Option<u64>,
}

/// One thing that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    #[serde(flatten)]
    pub at: Option<At>,
    /// The id in the line.
    pub seq: Option<u64>,
    pub id: Option<String>,
    #[serde(serialize_with = "in_words")]
    pub problem: Problem,
}

/// Why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    Unreadable(String),
    Line(LineError),
    NotCanonical,
    /// Of the chain, before the line.
    Missing {
        first: u64,
        last: u64,
        file_begins: bool,
    },
    /// From the beginning of the log, without a `pruned` notice.
    BeginningMissing {
        last: u64,
    },
    /// It calls itself the first line and names one before.
    NotFirst,
    OtherBefore,
    /// It should stand behind the line of that number.
    TooEarly {
        after: u64,
    },
    TooLate {
        after: u64,
    },
    Repeated,
    Inserted {
        after: u64,
    },
    Torn {
        bytes: usize,
    },
    /// Totals that are not those of the records before them.
    OtherTotals {
        said: RecordedCounts,
        counted: RecordedCounts,
    },
    /// The number in the file's name is not that of its first line.
    OtherName {
        named: u64,
        first: u64,
    },
    /// It begins with the same line as `read`, goes on with others, and was not read.
    Double {
        read: String,
    },
    /// Evidence that its lines name is not on the list beside it.
    ShortList {
        list: String,
        missing: usize,
    },
    BadList {
        list: String,
        why: String,
    },
    HeadCutOff {
        seq: u64,
        last: u64,
        source: HeadSource,
    },
    HeadOther {
        seq: u64,
        source: HeadSource,
    },
    /// The tree of the lines up to this one has another root than a checkpoint of it that was given.
    RootOther {
        seq: u64,
    },
    /// The line is a checkpoint, and not that of the lines before it.
    OtherCheckpoint {
        why: &'static str,
    },
    /// The line says that the log lacked this one, which the shared engine had seen.
    Rewound {
        seq: u64,
    },
    NoEvidence {
        path: String,
    },
    ChangedEvidence {
        path: String,
        why: String,
    },
    /// The evidence belongs to something else.
    OtherEvidence {
        why: String,
    },
}

/// The first faults, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub described: Vec<Fault>,
    /// All, those included that are not described.
    pub count: u64,
}

impl Faults {
    pub(in crate::audit::read) fn push(&mut self, fault: Fault) {
        self.count += 1;
        if self.described.len() < FAULTS_DESCRIBED_MAX {
            self.described.push(fault);
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Members<'a> {
            file: std::borrow::Cow<'a, str>,
            line: Option<u64>,
        }
        Members { file: self.file.to_string_lossy(), line: self.line }.serialize(serializer)
    }
}

fn in_words<S: Serializer>(problem: &Problem, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(problem)
}

/// `FILE:12`, or `FILE`.
impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file.display()),
            None => self.file.display().fmt(f),
        }
    }
}

/// `FILE:12: number 12 (01J9…): it was changed: …`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        match (&self.seq, &self.id) {
            (Some(seq), Some(id)) => {
                write!(f, "number {seq} ({}): ", crate::types::sanitize::text(id.as_bytes(), 64))?
            }
            (Some(seq), None) => write!(f, "number {seq}: ")?,
            _ => {}
        }
        self.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Line(LineError::Changed) => {
                f.write_str("changed: its text is not what its hash was made of")
            }
            Self::Line(LineError::NoHash) => f.write_str("changed: it does not end in a hash"),
            Self::Line(LineError::NoRecord(why)) => write!(f, "not a line of a log: {why}"),
            Self::NotCanonical => f.write_str("not in the canonical form of RFC 8785"),
            Self::Missing { first, last, file_begins } => {
                let removed =
                    if *file_begins { "; a segment has been removed, or its end" } else { "" };
                if first == last {
                    write!(f, "removed: line {first} is missing before it{removed}")
                } else {
                    write!(f, "removed: lines {first} to {last} are missing before it{removed}")
                }
            }
            Self::BeginningMissing { last } => {
                write!(
                    f,
                    "removed: lines 1 to {last} are missing, and no line says that retention removed them"
                )
            }
            Self::NotFirst => {
                f.write_str("it calls itself the first line, but names a line before it")
            }
            Self::OtherBefore => f.write_str(
                "the line before it is not the one it was chained to: that one was replaced",
            ),
            Self::TooEarly { after } => {
                write!(f, "swapped: it stands too early, before line {after}")
            }
            Self::TooLate { after } => {
                write!(f, "swapped: it stands too late, behind line {after}")
            }
            Self::Repeated => f.write_str("inserted: there is a line of this number before it"),
            Self::Inserted { after } => {
                write!(f, "inserted: what follows it goes on from line {after}")
            }
            Self::Torn { bytes } => write!(f, "torn: {bytes} bytes are no whole line"),
            Self::OtherTotals { said, counted } => {
                let difference = difference(said, counted);
                write!(f, "its totals are not those of the records before it: {difference}")
            }
            Self::OtherName { named, first } => {
                write!(
                    f,
                    "renamed: its name says that it begins with line {named}, and it begins with {first}"
                )
            }
            Self::Double { read } => {
                write!(f, "not read: it begins with the same line as {read}, and has other lines")
            }
            Self::ShortList { list, missing } => {
                write!(
                    f,
                    "its list of evidence was changed: {missing} of what its lines name missing in {list}"
                )
            }
            Self::BadList { list, why } => {
                write!(f, "its list of evidence was changed: {list}: {why}")
            }
            Self::HeadCutOff { seq, last, source } => {
                write!(
                    f,
                    "cut off: {}, and line {seq} {}",
                    if *last == 0 {
                        "the log has no line".into()
                    } else {
                        format!("the log ends with line {last}")
                    },
                    known(*source)
                )
            }
            Self::HeadOther { seq, source } => {
                let known = known(*source);
                write!(f, "another history: line {seq} does not have the hash that {known}")
            }
            Self::RootOther { seq } => {
                write!(
                    f,
                    "another history: the lines up to {seq} have not the root of the checkpoint that was published"
                )
            }
            Self::OtherCheckpoint { why } => {
                write!(f, "its checkpoint is not that of the lines before it: {why}")
            }
            Self::Rewound { seq } => {
                write!(
                    f,
                    "rewound: when the proxy was started, the log did not have line {seq} as the shared engine had \
                     seen it"
                )
            }
            Self::NoEvidence { path } => write!(f, "its evidence is missing: {path}"),
            Self::ChangedEvidence { path, why } => {
                write!(f, "its evidence was changed: {path}: {why}")
            }
            Self::OtherEvidence { why } => write!(f, "its evidence does not belong to it: {why}"),
        }
    }
}

/// How a head became known, as the end of a sentence about it.
const fn known(source: HeadSource) -> &'static str {
    match source {
        HeadSource::Published => "was published",
        HeadSource::Witnessed => "was seen by the shared engine",
        HeadSource::Noted => "is noted in head.json",
    }
}

/// The counts that differ: `2 denied where there are 3`.
fn difference(said: &RecordedCounts, counted: &RecordedCounts) -> String {
    let each = [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled];
    let each = each.into_iter().map(|event| (event, said.of(event), counted.of(event)));
    let other = each.filter(|(_, said, counted)| said != counted);
    let words = other
        .map(|(event, said, counted)| format!("{said} {} where there are {counted}", event.word()));
    words.collect::<Vec<_>>().join(", ")
}

/// Where a head comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// It was published out of reach of those who write to the log.
    Published,
    /// A shared engine has seen it, with the beats of the proxy.
    Witnessed,
    /// It is in `head.json` beside the log, and can be forged together with it.
    Noted,
}

/// A head that a log is to be held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenHead {
    pub head: Head,
    /// The log that it is of, where it names one.
    pub log: Option<LogId>,
    /// The checkpoint that it stands in.
    pub signed: Option<Box<SignedCheckpoint>>,
    pub source: HeadSource,
}

impl GivenHead {
    /// The head of a checkpoint that was published.
    pub fn checkpoint(signed: SignedCheckpoint) -> Self {
        let (head, log) = (signed.checkpoint.head.clone(), signed.checkpoint.log());
        Self { log, signed: Some(Box::new(signed)), ..Self::published(head) }
    }

    /// A head that was published.
    pub const fn published(head: Head) -> Self {
        Self { head, log: None, signed: None, source: HeadSource::Published }
    }

    /// A head that a shared engine has seen.
    pub const fn witnessed(head: Head) -> Self {
        Self { head, log: None, signed: None, source: HeadSource::Witnessed }
    }

    /// The same, of this log.
    pub fn of_log(self, log: Option<LogId>) -> Self {
        Self { log, ..self }
    }
}
