//! Signals to the writer's thread beside its jobs, and its events for the other threads.

use tokio::sync::{Notify, mpsc, watch};

use crate::audit::evidence::Inventory;

/// A file that has been closed, by the number of its first line, and what it has.
pub type Closing = (u64, Inventory);

/// What others hear of the files.
pub(super) struct News {
    /// How many have been begun.
    pub files: watch::Sender<u64>,
    /// What each had that has been closed.
    pub closed: mpsc::Sender<Closing>,
}

/// What the thread is called by, beside its jobs.
#[derive(Debug, Default)]
pub(super) struct Bells {
    /// Another program may have taken the file away.
    pub hang_up: Notify,
    /// The settings are others.
    pub changed: Notify,
    /// A notice is to be written.
    pub notice: Notify,
    /// What waits is to be written, and then nothing more.
    pub end: Notify,
}
