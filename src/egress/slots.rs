//! The bound on exchanges under way with one origin, over all workers, and its fair use: who waits
//! gets a slot in turn with the other clients that wait, however many each has waiting, and no client
//! can have all of them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::HashMap;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::{Error, Failure};
use crate::clients::Key;
use crate::clock;
use crate::latency::Latency;
use crate::origin::Origin;

/// Of so many slots one is kept from each client, for others.
const KEPT_FOR_OTHERS: usize = 8;

/// A table of origins that are in use right now; an origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots {
    table: Mutex<Table>,
    /// How long those waited that could not have a slot at once.
    pub waits: Latency,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct Table {
    per_origin: usize,
    origins: HashMap<Origin, Queue>,
}

/// Those who get a slot now.
type Granted = Vec<(Key, oneshot::Sender<Slot>)>;

/// The right to one exchange; given back when dropped.
#[derive(Debug)]
pub struct Slot {
    origin: Origin,
    asker: Key,
    slots: Arc<Slots>,
}

/// Who has slots of an origin, and who waits for one.
#[derive(Debug, Default)]
struct Queue {
    /// Few clients share an origin at a time: a list is quicker than a table, and no client stays in it
    /// without a slot.
    held: Vec<(Key, usize)>,
    in_use: usize,
    /// The clients that wait, in the order of their turns, each with its waiters. None is empty.
    waiting: VecDeque<(Key, VecDeque<oneshot::Sender<Slot>>)>,
}

impl Slots {
    pub fn new(per_origin: usize) -> Arc<Self> {
        let table = Mutex::new(Table { per_origin, origins: HashMap::default() });
        Arc::new(Self { table, waits: Latency::default(), rejected: AtomicU64::new(0) })
    }

    /// Waits for a slot of `origin`, at most `deadline`.
    pub async fn acquire(
        self: &Arc<Self>,
        origin: &Origin,
        asker: &Key,
        deadline: Duration,
    ) -> Result<Slot, Error> {
        match self.at_once(origin, asker) {
            Some(slot) => Ok(slot),
            None => Box::pin(self.wait(origin, asker, deadline)).await,
        }
    }

    async fn wait(self: &Arc<Self>, origin: &Origin, asker: &Key, deadline: Duration) -> Result<Slot, Error> {
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
    fn at_once(self: &Arc<Self>, origin: &Origin, asker: &Key) -> Option<Slot> {
        let mut table = self.table();
        let (max, share) = table.bounds();
        match table.origins.get_mut(origin) {
            Some(queue) if queue.is_free(asker, max, share) => queue.hold(asker),
            None if max > 0 => table.origins.entry(origin.clone()).or_default().hold(asker),
            _ => return None,
        }
        drop(table);
        Some(self.slot(origin, asker.clone()))
    }

    fn slot(self: &Arc<Self>, origin: &Origin, asker: Key) -> Slot {
        Slot { origin: origin.clone(), asker, slots: Arc::clone(self) }
    }

    fn enter(self: &Arc<Self>, origin: &Origin, asker: &Key, waiter: oneshot::Sender<Slot>) {
        let granted = {
            let mut table = self.table();
            table.origins.entry(origin.clone()).or_default().enter(asker, waiter);
            table.grant(origin)
        };
        self.hand_over(origin, granted);
    }

    fn leave(self: &Arc<Self>, origin: &Origin, asker: &Key) {
        let granted = {
            let mut table = self.table();
            let Some(queue) = table.origins.get_mut(origin) else { return };
            queue.release(asker);
            // The everyday case: nobody waits for it, and the origin stays in use.
            if queue.waiting.is_empty() && queue.in_use > 0 {
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
        let waiters = |queue: &Queue| {
            let waiters = queue.waiting.iter().flat_map(|(_, waiters)| waiters);
            waiters.filter(|waiter| !waiter.is_closed()).count()
        };
        table
            .origins
            .values()
            .fold((0, 0), |(in_use, waiting), queue| (in_use + queue.in_use, waiting + waiters(queue)))
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
    /// How many slots an origin has, and how many of them one client may have.
    const fn bounds(&self) -> (usize, usize) {
        (self.per_origin, self.per_origin - self.per_origin / KEPT_FOR_OTHERS)
    }

    /// Gives out what slots of `origin` are free; where none is in use then, the origin is forgotten.
    fn grant(&mut self, origin: &Origin) -> Granted {
        let (max, share) = self.bounds();
        let Some(queue) = self.origins.get_mut(origin) else { return Granted::new() };
        let next = || (queue.in_use < max).then(|| queue.next(share)).flatten();
        let granted = std::iter::from_fn(next).collect();
        if queue.in_use == 0 {
            self.origins.remove(origin);
        }
        granted
    }
}

impl Queue {
    fn enter(&mut self, asker: &Key, waiter: oneshot::Sender<Slot>) {
        match self.waiting.iter_mut().find(|(key, _)| key == asker) {
            Some((_, waiters)) => {
                // Whoever came first gives up first: what is left are those who still wait.
                while waiters.pop_front_if(|waiter| waiter.is_closed()).is_some() {}
                waiters.push_back(waiter);
            }
            None => self.waiting.push_back((asker.clone(), VecDeque::from([waiter]))),
        }
    }

    /// The next waiter of the next client that has less than its share, with the slot on its account.
    fn next(&mut self, share: usize) -> Option<(Key, oneshot::Sender<Slot>)> {
        loop {
            let place = self.waiting.iter().position(|(key, _)| self.may_have_more(key, share))?;
            let (key, mut waiters) = self.waiting.remove(place)?;
            let waiter = std::iter::from_fn(|| waiters.pop_front()).find(|waiter| !waiter.is_closed());
            if !waiters.is_empty() {
                self.waiting.push_back((key.clone(), waiters));
            }
            if let Some(waiter) = waiter {
                self.hold(&key);
                return Some((key, waiter));
            }
        }
    }

    /// Whether `asker` can have a slot without anybody waiting longer for it.
    fn is_free(&self, asker: &Key, max: usize, share: usize) -> bool {
        self.waiting.is_empty() && self.in_use < max && self.may_have_more(asker, share)
    }

    fn may_have_more(&self, asker: &Key, share: usize) -> bool {
        *asker == Key::Proxy || self.held.iter().all(|(key, count)| key != asker || *count < share)
    }

    fn hold(&mut self, asker: &Key) {
        self.in_use += 1;
        match self.held.iter_mut().find(|(key, _)| key == asker) {
            Some((_, count)) => *count += 1,
            None => self.held.push((asker.clone(), 1)),
        }
    }

    fn release(&mut self, asker: &Key) {
        self.in_use -= 1;
        if let Some(place) = self.held.iter().position(|(key, _)| key == asker) {
            self.held[place].1 -= 1;
            if self.held[place].1 == 0 {
                self.held.swap_remove(place);
            }
        }
    }
}

impl Slot {
    pub const fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.leave(&self.origin, &self.asker);
    }
}

#[cfg(test)]
mod tests;
