//! Which fetches may be under way: clients take turns at the places for them, and a fetch belongs to
//! each client that waits for it.
//!
//! Where clients wait for a place, fetches are given up for them: first those that are no longer waited
//! for, background refreshes among them; then, of fetches that have had some time, one of a client that
//! has more places than the one that waits; then the client's own that no site has answered yet. What is given
//! up says nothing about its site.

mod table;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::Undecided;
use crate::clients::Key;
use crate::runtime::clock;
use crate::store::fetch::Progress;
pub(super) use table::Id;
use table::{Entered, Table};

/// How long fetches to give up are left alone at least, and how often they are looked for at least while
/// others wait.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(50);
const LOOK_INTERVAL_MAX: Duration = Duration::from_millis(250);

/// So many fetches, and for how long each has its place at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Fetches under way.
    pub max: usize,
    /// Fetches that wait for a place.
    pub queue_max: usize,
    /// How long a fetch that is waited for is left alone while others wait.
    pub patience: Duration,
}

/// All fetches of a store.
#[derive(Debug)]
pub(super) struct Fetches(Mutex<Table>);

/// One fetch, from its beginning to its end. Dropped, it gives back its place.
#[derive(Debug)]
pub(super) struct Ticket {
    id: Id,
    fetches: Arc<Fetches>,
}

/// A client's request that waits for a fetch.
#[derive(Debug)]
pub(super) struct Interest {
    id: Id,
    client: Key,
    fetches: Arc<Fetches>,
}

/// Told to a fetch that is to give up, and why.
pub(super) type GiveUp = oneshot::Receiver<Undecided>;

impl Fetches {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Table::new(bounds))))
    }

    /// Other bounds, from now on.
    pub(super) fn change(&self, bounds: Bounds) {
        self.table().change(bounds);
    }

    /// A fetch that `client` causes.
    pub(super) fn begin(self: &Arc<Self>, client: &Key) -> Ticket {
        Ticket { id: self.table().begin(client), fetches: Arc::clone(self) }
    }

    /// Whether a fetch for `client` could begin at once, without anybody waiting longer for it.
    pub(super) fn has_place(&self, client: &Key) -> bool {
        self.table().has_place(client)
    }

    /// A request of `client` waits for a fetch, until what is returned is dropped.
    pub(super) fn join(self: &Arc<Self>, id: Id, client: &Key) -> Interest {
        self.table().join(id, client);
        Interest { id, client: client.clone(), fetches: Arc::clone(self) }
    }

    /// Has fetches given up for those that wait: now, and as long as any does.
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
        // Also taken while dropping, where a panic would be a second one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// By which others may wait for this fetch.
    pub(super) const fn id(&self) -> Id {
        self.id
    }

    /// Waits for a place. [`Undecided::Busy`] where too many wait, [`Undecided::Left`] where this one is no
    /// longer waited for.
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

/// Looks for fetches to give up, as long as others wait for a place: one for all of them.
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
    /// With its runtime, which goes down: the next fetch that waits goes on with it.
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
