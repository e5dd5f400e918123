//! Signals to the writer's thread beside its jobs, and its events for the other threads.

use tokio::sync::{Notify, mpsc, watch};

use crate::audit::evidence::EvidenceIndex;

/// A closed file: the number of its first line, and its evidence index.
pub type Closing = (u64, EvidenceIndex);

/// Events of the files, for other threads.
pub(super) struct Events {
    /// How many files have been begun.
    pub files: watch::Sender<u64>,
    /// The evidence index of each file that was closed.
    pub closed: mpsc::Sender<Closing>,
}

/// Signals to the thread beside its jobs.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Reopen the file: another program may have renamed it.
    pub hang_up: Notify,
    /// The settings have changed.
    pub changed: Notify,
    /// A notice was queued.
    pub notice: Notify,
    /// Write what is queued, then end.
    pub end: Notify,
}
