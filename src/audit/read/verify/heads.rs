//! The heads that a log is held against: published ones, and the one that the proxy notes beside it.

use serde::Serialize;

use crate::audit::read::Log;
use crate::audit::{Head, read_head};

/// What the log says of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadState {
    /// The log has that line, with that hash.
    Found,
    /// It has another line of that number, or none in its place.
    Other,
    /// It ends before that line.
    CutOff,
    /// It begins after that line: nothing can be said of the hash.
    Removed,
    /// Only a part of the log is there, and the line comes after it: nothing can be said.
    Beyond,
}

/// A head, and whether the log has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldHead {
    #[serde(flatten)]
    pub head: Head,
    pub state: HeadState,
}

/// The head in `head.json`. Whoever can change the log can change it, so it is no published one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "file", rename_all = "snake_case")]
pub enum NotedHead {
    /// Single files were checked: what lies beside them was not looked at.
    #[default]
    NotRead,
    Missing,
    Unreadable {
        why: String,
    },
    Read(HeldHead),
}

/// What the log in `log` notes of its own head. To be asked for before its lines are read: it is never
/// ahead of those.
pub(super) fn noted(log: &Log) -> Result<Head, NotedHead> {
    let Log::Dir(dir) = log else { return Err(NotedHead::NotRead) };
    match read_head(dir) {
        Ok(Some((head, _))) => Ok(head),
        Ok(None) => Err(NotedHead::Missing),
        Err(error) => Err(NotedHead::Unreadable { why: error.to_string() }),
    }
}
