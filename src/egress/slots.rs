//! The bound on exchanges under way with one origin, over all workers, and its fair use: who waits
//! gets a slot in turn with the other clients that wait, however many each has waiting, and no client
//! can have all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::asker::Asker;
use super::error::{Error, Failure};
use crate::clients::Turns;
use crate::runtime::clock;
use crate::runtime::histogram::Histogram;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// A table of origins that are in use right now; an origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots {
    table: Mutex<Table>,
    /// How long those waited that could not have a slot at once.
    pub waits: Histogram,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct Table {
    per_origin: usize,
    origins: HashMap<Origin, Queue>,
}

/// Those who get a slot now.
type Granted = Vec<(ClientKey, oneshot::Sender<Slot>)>;

/// The right to one exchange; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    origin: Origin,
    asker: ClientKey,
    slots: Arc<Slots>,
}

/// Who has slots of an origin, and who waits for one.
type Queue = Turns<oneshot::Sender<Slot>>;

impl Slots {
    pub fn new(per_origin: usize) -> Arc<Self> {
        let table = Mutex::new(Table { per_origin, origins: HashMap::default() });
        Arc::new(Self { table, waits: Histogram::default(), rejected: AtomicU64::new(0) })
    }

    /// Waits for a slot of `origin`, at most `deadline`.
    pub async fn acquire(
        self: &Arc<Self>,
        origin: &Origin,
        asker: Asker<'_>,
        deadline: Duration,
    ) -> Result<Slot, Error> {
        match self.at_once(origin, asker.for_slots()) {
            Some(slot) => Ok(slot),
            None => {
                asker.is_queued();
                Box::pin(self.wait(origin, asker.for_slots(), deadline)).await
            }
        }
    }

    async fn wait(
        self: &Arc<Self>,
        origin: &Origin,
        asker: &ClientKey,
        deadline: Duration,
    ) -> Result<Slot, Error> {
        let ((sender, receiver), since) = (oneshot::channel(), clock::monotonic());
        self.enter(origin, asker, sender);
        // A slot that comes when nobody waits any more is given back with the channel.
        let granted = timeout(deadline, receiver).await;
        self.waits.note(clock::monotonic() - since);
        if let Ok(Ok(slot)) = granted {
            return Ok(slot);
        }
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let detail = format!(
            "{} exchanges with {origin} are under way and none ended within {deadline:?} \
             (egress.max_per_origin)",
            self.table().per_origin
        );
        Err(Error::new(Failure::ConnectionLimit, detail))
    }

    /// The everyday case: there is a slot, and nobody waits for it.
    fn at_once(self: &Arc<Self>, origin: &Origin, asker: &ClientKey) -> Option<Slot> {
        let mut table = self.table();
        let max = table.per_origin;
        let is_taken = match table.origins.get_mut(origin) {
            Some(queue) => queue.take(asker, max),
            None => max > 0 && table.origins.entry(origin.clone()).or_default().take(asker, max),
        };
        drop(table);
        if !is_taken {
            return None;
        }
        Some(self.slot(origin, asker.clone()))
    }

    fn slot(self: &Arc<Self>, origin: &Origin, asker: ClientKey) -> Slot {
        Slot { origin: origin.clone(), asker, slots: Arc::clone(self) }
    }

    fn enter(self: &Arc<Self>, origin: &Origin, asker: &ClientKey, waiter: oneshot::Sender<Slot>) {
        let granted = {
            let mut table = self.table();
            let queue = table.origins.entry(origin.clone()).or_default();
            queue.enter(asker, waiter, oneshot::Sender::is_closed);
            table.grant(origin)
        };
        self.hand_over(origin, granted);
    }

    fn leave(self: &Arc<Self>, origin: &Origin, asker: &ClientKey) {
        let granted = {
            let mut table = self.table();
            let Some(queue) = table.origins.get_mut(origin) else { return };
            queue.release(asker);
            // The everyday case: nobody waits for it, and the origin stays in use.
            if !queue.is_contended() && queue.in_use() > 0 {
                return;
            }
            table.grant(origin)
        };
        self.hand_over(origin, granted);
    }

    /// Another bound, also for the origins that are in use.
    pub fn change(self: &Arc<Self>, per_origin: usize) {
        let mut table = self.table();
        table.per_origin = per_origin;
        let in_use: Vec<_> = table.origins.keys().cloned().collect();
        let granted: Vec<_> = in_use.iter().map(|origin| table.grant(origin)).collect();
        drop(table);
        in_use.iter().zip(granted).for_each(|(origin, granted)| self.hand_over(origin, granted));
    }

    /// How many exchanges are under way, and how many wait for a slot.
    pub fn counts(&self) -> (usize, usize) {
        let table = self.table();
        let waiters = |queue: &Queue| queue.waiting().filter(|waiter| !waiter.is_closed()).count();
        table.origins.values().fold((0, 0), |(in_use, waiting), queue| {
            (in_use + queue.in_use(), waiting + waiters(queue))
        })
    }

    /// How many slots did not come in time.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Without the lock: a slot that nobody takes any more comes back at once.
    fn hand_over(self: &Arc<Self>, origin: &Origin, granted: Granted) {
        for (asker, waiter) in granted {
            let _ = waiter.send(self.slot(origin, asker));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also taken while dropping, where a panic would be a second one.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Gives out what slots of `origin` are free; where none is in use then, the origin is forgotten.
    fn grant(&mut self, origin: &Origin) -> Granted {
        let Some(queue) = self.origins.get_mut(origin) else { return Granted::new() };
        let granted =
            std::iter::from_fn(|| queue.next(self.per_origin, oneshot::Sender::is_closed))
                .collect();
        if queue.in_use() == 0 {
            self.origins.remove(origin);
        }
        granted
    }
}

impl Slot {
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// For whom the exchange is.
    pub const fn asker(&self) -> &ClientKey {
        &self.asker
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.leave(&self.origin, &self.asker);
    }
}

#[cfg(test)]
mod tests;
