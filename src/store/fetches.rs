//! Schedules fetches: clients take turns at a bounded number of slots, and a fetch counts for each
//! client that waits for it.
//!
//! When clients wait for a slot, running fetches are cancelled for them: first those that no
//! request waits for, such as background refreshes; then, after a minimum time, one of a client
//! with more slots than the waiting one; then the client's own that no site has responded to yet. A
//! cancelled fetch says nothing about its site.

mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Undecided;
use crate::runtime::clock;
use crate::store::fetch::Progress;
use crate::types::client_key::ClientKey;
pub(super) use table::Id;
use table::{Entered, Table};

/// The minimum and the maximum time between two searches for fetches to cancel, while others wait.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(50);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(250);

/// The bounds of concurrent fetches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Running fetches.
    pub max: usize,
    /// Fetches waiting for a slot.
    pub queue_max: usize,
    /// How long a fetch that requests wait for runs undisturbed while others wait.
    pub patience: Duration,
}

/// The fetches of a store.
#[derive(Debug)]
pub(super) struct Fetches(Mutex<Table>);

/// A fetch from start to end. Releases its slot when dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    id: Id,
    fetches: Arc<Fetches>,
}

/// A client's request that waits for a fetch, until dropped.
#[derive(Debug)]
pub(super) struct Interest {
    id: Id,
    client: ClientKey,
    fetches: Arc<Fetches>,
}

/// Signals a fetch to stop, with the reason.
pub(super) type GiveUp = oneshot::Receiver<Undecided>;

impl Fetches {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Table::new(bounds))))
    }

    /// Applies new bounds.
    pub(super) fn change(&self, bounds: Bounds) {
        self.table().change(bounds);
    }

    /// Registers a fetch that `client` causes.
    pub(super) fn begin(self: &Arc<Self>, client: &ClientKey) -> Ticket {
        Ticket { id: self.table().begin(client), fetches: Arc::clone(self) }
    }

    /// Whether a fetch for `client` could start at once without delaying others.
    pub(super) fn has_place(&self, client: &ClientKey) -> bool {
        self.table().has_place(client)
    }

    /// Registers a request of `client` as waiting for a fetch.
    pub(super) fn join(self: &Arc<Self>, id: Id, client: &ClientKey) -> Interest {
        self.table().join(id, client);
        Interest { id, client: client.clone(), fetches: Arc::clone(self) }
    }

    /// Cancels fetches for those that wait, now and as long as any does.
    fn look(self: &Arc<Self>) {
        let mut table = self.table();
        if std::mem::replace(&mut table.is_looked_at, true) {
            table.look_soon(clock::monotonic());
            return;
        }
        drop(table);
        tokio::spawn(Looking { fetches: Arc::clone(self), has_ended: false }.on());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also locked while dropping, where a panic would be a second one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The number by which requests join this fetch.
    pub(super) const fn id(&self) -> Id {
        self.id
    }

    /// Waits for a slot. Fails with [`Undecided::Busy`] if too many wait, and with
    /// [`Undecided::Left`] if no request waits for this fetch any more.
    pub(super) async fn place(&self, progress: &Arc<Progress>) -> Result<GiveUp, Undecided> {
        let entered = self.fetches.table().enter(self.id, progress);
        match entered {
            Entered::Granted(give_up) => Ok(give_up),
            Entered::Queued(granted) => {
                self.fetches.look();
                granted.await.unwrap_or(Err(Undecided::Aborted))
            }
            Entered::Refused => Err(Undecided::Left),
        }
    }
}

/// The task that cancels fetches while others wait for a slot; one for all of them.
struct Looking {
    fetches: Arc<Fetches>,
    has_ended: bool,
}

impl Looking {
    async fn on(mut self) {
        loop {
            let next = self.fetches.table().look(clock::monotonic());
            let Some(next) = next else {
                self.has_ended = true;
                return;
            };
            tokio::time::sleep(next.clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL_MAX)).await;
        }
    }
}

impl Drop for Looking {
    /// Dropped with a runtime that shuts down: the next fetch that waits starts another task.
    fn drop(&mut self) {
        if !self.has_ended {
            self.fetches.table().is_looked_at = false;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.fetches.table().end(self.id);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.fetches.table().leave(self.id, &self.client);
    }
}
