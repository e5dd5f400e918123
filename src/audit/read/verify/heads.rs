//! Heads to check a log against: published ones, and the one that the proxy notes beside it.

use serde::Serialize;

use crate::audit::read::Log;
use crate::audit::{Head, read_head};

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
}

/// A head, and whether the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldHead {
    #[serde(flatten)]
    pub head: Head,
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
    let Log::Dir(dir) = log else { return Err(NotedHead::NotRead) };
    match read_head(dir) {
        Ok(Some((head, _))) => Ok(head),
        Ok(None) => Err(NotedHead::Missing),
        Err(error) => Err(NotedHead::Unreadable { why: error.to_string() }),
    }
}
