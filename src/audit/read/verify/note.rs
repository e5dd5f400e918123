//! Notes: unusual things in a log that are no faults.

use std::fmt;

use serde::{Serialize, Serializer};

use super::fault::At;
use crate::audit::limits::FAULTS_DESCRIBED_MAX;
use crate::audit::print_time;
use crate::types::timestamp::Timestamp;

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
    /// The line is older than the one before it.
    Backwards {
        time: Timestamp,
        before: At,
        time_before: Timestamp,
        /// How often in the whole log.
        count: u64,
    },
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
