//! The result of a verification.

use serde::Serialize;

use super::fault::Faults;
use super::heads::{HeadState, HeldHead, NotedHead};
use super::note::Notes;
use crate::audit::Head;
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
    /// The last line; none in an empty log.
    pub head: Option<Head>,
    /// The published heads that were given, in that order.
    pub published: Vec<HeldHead>,
    /// The heads of this log that a shared engine has seen, of those that were given.
    pub witnessed: Vec<HeldHead>,
    /// The head that the proxy notes beside the log.
    pub noted: NotedHead,
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
    /// How often the proxy was started.
    pub started: u64,
    /// Changes of settings, or of files that they name.
    pub settings: u64,
    /// How often it was stopped cleanly.
    pub stopped: u64,
    /// How often it was started again without that.
    pub not_stopped: u64,
    /// Of changes of robots.txt files.
    pub changed: u64,
    /// Delays that robots.txt files ask for.
    pub paced: u64,
    /// Lines of a kind that this version does not know.
    pub unknown: u64,
}

impl Findings {
    /// The last line that is under a published head.
    pub fn published_up_to(&self) -> Option<&Head> {
        let found = self.published.iter().filter(|held| held.state == HeadState::Found);
        found.map(|held| &held.head).max_by_key(|head| head.seq)
    }
}
