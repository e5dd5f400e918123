//! Schedules fetches: clients take turns at a bounded number of permits, and a fetch counts for
//! each client that waits for it.
//!
//! When clients wait for a permit, running fetches are cancelled for them: first those that no
//! request waits for, such as background refreshes; then, after a minimum time, one of a client
//! with more permits than the waiting one; then the client's own that no site has responded to yet.
//! A cancelled fetch says nothing about its site.

mod table;

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::store::fetch::Progress;
use crate::types::ClientKey;
pub use table::{Bounds, CancelReason, CancelSignal, Id};
use table::{PREEMPTION_INTERVAL_MIN, PermitRequestOutcome, Table};

/// The maximum time between two searches for fetches to cancel, while others wait.
const PREEMPTION_INTERVAL_MAX: Duration = Duration::from_millis(250);

/// The fetches of a store.
#[derive(Debug)]
pub struct Queue(Lock<Table>);

/// A fetch from start to end. Releases its permit when dropped.
#[derive(Debug)]
pub struct Ticket {
    id: Id,
    queue: Arc<Queue>,
}

/// A client's request that waits for a fetch, until dropped.
#[derive(Debug)]
pub struct Interest {
    id: Id,
    client: ClientKey,
    queue: Arc<Queue>,
}

impl Queue {
    /// A queue without fetches.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self(Lock::new(Table::new(bounds))))
    }

    /// Applies new bounds.
    pub fn resize(&self, bounds: Bounds) {
        self.table().change(bounds);
    }

    /// Registers a fetch that `client` causes.
    pub fn begin(self: &Arc<Self>, client: &ClientKey) -> Ticket {
        Ticket { id: self.table().begin(client), queue: Arc::clone(self) }
    }

    /// Whether a fetch for `client` could start at once without delaying others.
    pub fn has_free_permit(&self, client: &ClientKey) -> bool {
        self.table().has_free_permit(client)
    }

    /// Registers a request of `client` as waiting for a fetch.
    pub fn join(self: &Arc<Self>, id: Id, client: &ClientKey) -> Interest {
        self.table().join(id, client);
        Interest { id, client: client.clone(), queue: Arc::clone(self) }
    }

    /// Cancels fetches for those that wait: now, or by a task as long as any does.
    fn start_canceller(self: &Arc<Self>) {
        let mut table = self.table();
        if std::mem::replace(&mut table.has_canceller, true) {
            table.preempt_soon(clock::monotonic());
            return;
        }
        drop(table);
        tokio::spawn(Canceller { queue: Arc::clone(self), has_ended: false }.run());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also locked while dropping, where a panic would be a second one.
        self.0.lock()
    }
}

impl Ticket {
    /// The number by which requests join this fetch.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// Waits for a permit. Fails with [`CancelReason::Busy`] if too many wait, and with
    /// [`CancelReason::Abandoned`] if no request waits for this fetch any more.
    pub async fn wait_for_permit(
        &self,
        progress: &Arc<Progress>,
    ) -> Result<CancelSignal, CancelReason> {
        let outcome = self.queue.table().request_permit(self.id, progress);
        match outcome {
            PermitRequestOutcome::Granted(cancel) => Ok(cancel),
            PermitRequestOutcome::Queued(granted) => {
                self.queue.start_canceller();
                granted.await.unwrap_or(Err(CancelReason::Aborted))
            }
            PermitRequestOutcome::Refused => Err(CancelReason::Abandoned),
        }
    }
}

/// The task that cancels fetches while others wait for a permit; one for all of them.
struct Canceller {
    queue: Arc<Queue>,
    has_ended: bool,
}

impl Canceller {
    async fn run(mut self) {
        loop {
            let next = self.queue.table().preempt(clock::monotonic());
            let Some(next) = next else {
                self.has_ended = true;
                return;
            };
            tokio::time::sleep(next.clamp(PREEMPTION_INTERVAL_MIN, PREEMPTION_INTERVAL_MAX)).await;
        }
    }
}

impl Drop for Canceller {
    /// Dropped with a runtime that shuts down: the next fetch that waits starts another task.
    fn drop(&mut self) {
        if !self.has_ended {
            self.queue.table().has_canceller = false;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queue.table().end(self.id);
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.queue.table().leave(self.id, &self.client);
    }
}
