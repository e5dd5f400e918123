//! The limit on exchanges with one origin, over all workers, and its fair use: a client that waits
//! gets a slot in turn with the other clients, however many requests each has waiting, and no
//! client can have all slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::clients::Turns;
use crate::egress::error::{Error, Failure};
use crate::egress::requester::Requester;
use crate::runtime::clock;
use crate::runtime::histogram::Histogram;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// The origins in use, each with its slots. An origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots {
    table: Lock<Table>,
    /// How long exchanges waited that got no slot at once.
    pub waits: Histogram,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct Table {
    per_origin: usize,
    origins: HashMap<Origin, Queue>,
}

/// The waiters that get a slot now.
type Granted = Vec<(ClientKey, oneshot::Sender<Slot>)>;

/// The right to one exchange with an origin; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    origin: Origin,
    client: ClientKey,
    slots: Arc<Slots>,
}

/// The clients that have slots of an origin, and those that wait for one.
type Queue = Turns<oneshot::Sender<Slot>>;

impl Slots {
    /// With so many slots for each origin.
    pub fn new(per_origin: usize) -> Arc<Self> {
        let table = Lock::new(Table { per_origin, origins: HashMap::default() });
        Arc::new(Self { table, waits: Histogram::default(), rejected: AtomicU64::new(0) })
    }

    /// Waits for a slot of `origin`, at most for `limit`.
    ///
    /// # Errors
    ///
    /// [`Failure::ConnectionLimit`] when there was none in time.
    pub async fn acquire(
        self: &Arc<Self>,
        origin: &Origin,
        requester: Requester<'_>,
        limit: Duration,
    ) -> Result<Slot, Error> {
        match self.try_acquire(origin, requester.for_slots()) {
            Some(slot) => Ok(slot),
            None => {
                requester.note_queued();
                Box::pin(self.wait(origin, requester.for_slots(), limit)).await
            }
        }
    }

    async fn wait(
        self: &Arc<Self>,
        origin: &Origin,
        client: &ClientKey,
        limit: Duration,
    ) -> Result<Slot, Error> {
        let since = clock::monotonic();
        let (sender, receiver) = oneshot::channel();
        self.enqueue(origin, client, sender);
        // A slot that comes after the timeout is given back with the channel.
        let granted = timeout(limit, receiver).await;
        self.waits.note(clock::monotonic() - since);
        if let Ok(Ok(slot)) = granted {
            return Ok(slot);
        }
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let detail = format!(
            "{} exchanges with {origin} are under way and none ended within {limit:?} \
             (egress.max_per_origin)",
            self.table.lock().per_origin
        );
        Err(Error::new(Failure::ConnectionLimit, detail))
    }

    /// A slot, if there is one and no other request waits for it: the common case.
    fn try_acquire(self: &Arc<Self>, origin: &Origin, client: &ClientKey) -> Option<Slot> {
        let mut table = self.table.lock();
        let max = table.per_origin;
        let is_taken = match table.origins.get_mut(origin) {
            Some(queue) => queue.take(client, max),
            None => max > 0 && table.origins.entry(origin.clone()).or_default().take(client, max),
        };
        drop(table);
        if !is_taken {
            return None;
        }
        Some(self.slot(origin, client.clone()))
    }

    fn slot(self: &Arc<Self>, origin: &Origin, client: ClientKey) -> Slot {
        Slot { origin: origin.clone(), client, slots: Arc::clone(self) }
    }

    fn enqueue(
        self: &Arc<Self>,
        origin: &Origin,
        client: &ClientKey,
        waiter: oneshot::Sender<Slot>,
    ) {
        let granted = {
            let mut table = self.table.lock();
            let queue = table.origins.entry(origin.clone()).or_default();
            queue.enter(client, waiter, oneshot::Sender::is_closed);
            table.grant(origin)
        };
        self.hand_over(origin, granted);
    }

    fn release(self: &Arc<Self>, origin: &Origin, client: &ClientKey) {
        let granted = {
            let mut table = self.table.lock();
            let Some(queue) = table.origins.get_mut(origin) else { return };
            queue.release(client);
            // The common case: no request waits, and the origin stays in use.
            if !queue.is_contended() && queue.in_use() > 0 {
                return;
            }
            table.grant(origin)
        };
        self.hand_over(origin, granted);
    }

    /// Changes the number of slots, also of the origins in use.
    pub fn change(self: &Arc<Self>, per_origin: usize) {
        let mut table = self.table.lock();
        table.per_origin = per_origin;
        let in_use: Vec<_> = table.origins.keys().cloned().collect();
        let granted: Vec<_> = in_use.iter().map(|origin| table.grant(origin)).collect();
        drop(table);
        for (origin, granted) in in_use.iter().zip(granted) {
            self.hand_over(origin, granted);
        }
    }

    /// The number of exchanges under way, and of those that wait for a slot.
    pub fn counts(&self) -> (usize, usize) {
        let table = self.table.lock();
        let waiters = |queue: &Queue| queue.waiting().filter(|waiter| !waiter.is_closed()).count();
        table.origins.values().fold((0, 0), |(in_use, waiting), queue| {
            (in_use + queue.in_use(), waiting + waiters(queue))
        })
    }

    /// The number of exchanges that got no slot in time.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Sends granted slots to their waiters. Must be called without the lock: a slot whose waiter
    /// has left is released at once.
    fn hand_over(self: &Arc<Self>, origin: &Origin, granted: Granted) {
        for (client, waiter) in granted {
            let _ = waiter.send(self.slot(origin, client));
        }
    }
}

impl Table {
    /// Grants the free slots of `origin`. Removes the origin if none is in use then.
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
    /// The origin of the exchange.
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The client of the exchange.
    pub const fn client(&self) -> &ClientKey {
        &self.client
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(&self.origin, &self.client);
    }
}

#[cfg(test)]
mod tests;
