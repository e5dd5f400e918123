//! Single-flight: one task per key at a time, and callers on any runtime that wait for its outcome.
//!
//! Flights of one key and different identities run side by side. A flight always completes, exactly once. How many run at a time, and for whom, is up to the
//! [`queue`].

pub mod queue;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::fetch::Progress;
use crate::clients::{FairSemaphore, SemaphorePermit};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use queue::{CancelReason, CancelSignal, FlightWait, Id, Interest, Queue, Ticket};

/// The flights of keys `K` and identities `I`, which complete with a `T` or fail with an `E`.
pub struct SingleFlight<K, I, T, E> {
    table: Lock<Table<K, I, Joinable<T, E>, T>>,
    queue: Arc<Queue>,
    /// Limits all flights, queued and running.
    permits: Arc<FairSemaphore>,
}

/// The bounds of flights.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Flights at a time.
    pub max: usize,
    pub queue: queue::Bounds,
}

/// The task's side of a flight. Dropped before it completes (by a panic, or a runtime that shuts
/// down), it unregisters itself and wakes the waiters.
pub struct Flight<K: Eq + Hash, I: Eq + Hash, T, E> {
    registration: Registration<K, I, T, E>,
    outcome: watch::Sender<Option<Result<T, E>>>,
    is_forgotten: Arc<AtomicBool>,
    ticket: Ticket,
    permit: SemaphorePermit,
}

/// A flight that has been unregistered, and whose waiters are still to be woken.
#[must_use = "the waiters are woken by `send`"]
pub struct Completion<T, E> {
    outcome: watch::Sender<Option<Result<T, E>>>,
    _ticket: Ticket,
    _permit: SemaphorePermit,
}

/// A caller that waits for a flight.
pub struct Waiting<T, E> {
    outcome: watch::Receiver<Option<Result<T, E>>>,
    _interest: Interest,
}

/// The outcome of [`SingleFlight::start`].
pub enum StartOutcome<K: Eq + Hash, I: Eq + Hash, T, E> {
    /// A flight was in progress.
    Joined(Waiting<T, E>),
    /// A new flight, which the caller has to run.
    Started(Flight<K, I, T, E>, Waiting<T, E>),
    /// There are too many flights.
    Busy,
}

/// Lets callers join a flight.
struct Joinable<T, E> {
    outcome: watch::Receiver<Option<Result<T, E>>>,
    is_forgotten: Arc<AtomicBool>,
    ticket: Id,
    queue: Arc<Queue>,
}

/// The flight's entry in the table, removed when dropped.
struct Registration<K: Eq + Hash, I: Eq + Hash, T, E> {
    flights: Arc<SingleFlight<K, I, T, E>>,
    key: FlightKey<K, I>,
    /// What later flights of the key build on.
    value: Option<T>,
}

impl<K, I, T, E> SingleFlight<K, I, T, E> {
    /// A table without flights.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            table: Lock::default(),
            queue: Queue::new(bounds.queue),
            permits: FairSemaphore::new(bounds.max),
        })
    }

    /// Applies new bounds.
    pub fn resize(&self, bounds: Bounds) {
        self.queue.resize(bounds.queue);
        self.permits.resize(bounds.max);
    }

    /// The number of flights.
    pub fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Whether a flight for `client` could run at once without delaying others.
    pub fn has_free_permit(&self, client: &ClientKey) -> bool {
        self.queue.has_free_permit(client)
    }
}

impl<K, I, T, E> SingleFlight<K, I, T, E>
where
    K: Clone + Eq + Hash,
    I: Clone + Eq + Hash,
    T: Clone,
{
    /// Whether [`Self::start`] would join a flight.
    pub fn is_in_flight(&self, key: &FlightKey<K, I>) -> bool {
        self.table.lock().find(key).is_some()
    }

    /// Whether another identity than `identity` has a flight of `key`.
    pub fn has_other(&self, key: &K, identity: &I) -> bool {
        self.table.lock().has_other(key, identity)
    }

    /// Joins the flight of `key`; begins one if there is none. `client` waits for it as long as it holds the [`Waiting`].
    pub fn start(
        self: &Arc<Self>,
        key: FlightKey<K, I>,
        client: &ClientKey,
    ) -> StartOutcome<K, I, T, E> {
        let mut table = self.table.lock();
        if let Some(flight) = table.find(&key) {
            return StartOutcome::Joined(flight.join(client));
        }
        let Some(permit) = self.permits.try_acquire(client) else { return StartOutcome::Busy };
        let (sender, outcome) = watch::channel(None);
        let ticket = self.queue.begin(client);
        let is_forgotten = Arc::new(AtomicBool::new(false));
        let joinable = Joinable {
            outcome,
            is_forgotten: Arc::clone(&is_forgotten),
            ticket: ticket.id(),
            queue: Arc::clone(&self.queue),
        };
        let waiting = joinable.join(client);
        table.insert(&key, joinable);
        drop(table);
        let registration = Registration { flights: Arc::clone(self), key, value: None };
        StartOutcome::Started(
            Flight { registration, outcome: sender, is_forgotten, ticket, permit },
            waiting,
        )
    }

    /// The flights for which requests wait, and what waits for each.
    pub fn waits(&self) -> Vec<(FlightKey<K, I>, FlightWait)> {
        let flights: Vec<_> = {
            let table = self.table.lock();
            let key =
                |key: &K, identity: &I| FlightKey { key: key.clone(), identity: identity.clone() };
            let of_key = |(name, of): (&K, &OfKey<I, Joinable<T, E>, T>)| {
                let flights = of.flights.iter();
                flights.map(|(own, it)| (key(name, own), it.ticket)).collect::<Vec<_>>()
            };
            table.keys.iter().flat_map(of_key).collect()
        };
        let waits = self.queue.waits(flights.iter().map(|(_, ticket)| *ticket));
        let flights = flights.into_iter().zip(waits);
        let flights = flights.filter_map(|((key, _), wait)| Some((key, wait?)));
        flights.filter(|(_, wait)| wait.clients.waiting > 0).collect()
    }

    /// The value of the last flight of `key` that completed while others were in progress.
    pub fn last_value(&self, key: &K) -> Option<T> {
        self.table.lock().last_value(key).cloned()
    }

    /// Forgets [`Self::last_value`] of `key`: what its flights knew before is not to be built on.
    pub fn forget(&self, key: &K) {
        let mut table = self.table.lock();
        table.forget(key).for_each(|flight| flight.is_forgotten.store(true, Ordering::Relaxed));
    }
}

impl<K: Eq + Hash, I: Eq + Hash, T, E> Flight<K, I, T, E> {
    /// Waits for its turn to run. Then it has to stop as soon as the returned [`CancelSignal`] says
    /// so.
    ///
    /// # Errors
    ///
    /// [`CancelReason`] if it is to complete without having run.
    pub async fn wait_for_permit(
        &self,
        progress: &Arc<Progress>,
    ) -> Result<CancelSignal, CancelReason> {
        self.ticket.wait_for_permit(progress).await
    }

    /// Whether its key has been forgotten since it began. Ordered by the caller's lock, which is
    /// held here and at [`SingleFlight::forget`].
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Unregisters the flight: later callers begin another, which may build on `build_on`. It keeps
    /// its permit until the waiters are woken.
    pub fn unregister(mut self, build_on: Option<T>) -> Completion<T, E> {
        self.registration.value = build_on;
        drop(self.registration);
        Completion { outcome: self.outcome, _ticket: self.ticket, _permit: self.permit }
    }
}

impl<T, E> Completion<T, E> {
    /// Wakes the waiters with `outcome`.
    pub fn send(self, outcome: Result<T, E>) {
        self.outcome.send_replace(Some(outcome));
    }
}

impl<T: Clone, E: Clone> Waiting<T, E> {
    /// Waits for the outcome. `None` if the flight was dropped without one.
    pub async fn outcome(mut self) -> Option<Result<T, E>> {
        let outcome = self.outcome.wait_for(Option::is_some).await.ok()?;
        outcome.clone()
    }
}

impl<T, E> Joinable<T, E> {
    fn join(&self, client: &ClientKey) -> Waiting<T, E> {
        let interest = self.queue.join(self.ticket, client);
        Waiting { outcome: self.outcome.clone(), _interest: interest }
    }
}

impl<K: Eq + Hash, I: Eq + Hash, T, E> Drop for Registration<K, I, T, E> {
    fn drop(&mut self) {
        self.flights.table.lock().remove(&self.key, self.value.take());
    }
}

/// Identifies a flight.
#[derive(Clone, Debug)]
pub struct FlightKey<K, I> {
    pub key: K,
    pub identity: I,
}

/// Flights `F` by key and identity, and the values `T` with which they completed.
struct Table<K, I, F, T> {
    keys: HashMap<K, OfKey<I, F, T>>,
    count: usize,
}

struct OfKey<I, F, T> {
    flights: HashMap<I, F>,
    /// The value of the last flight that completed, for those still in progress.
    last_value: Option<T>,
}

impl<K, I, F, T> Default for Table<K, I, F, T> {
    fn default() -> Self {
        Self { keys: HashMap::new(), count: 0 }
    }
}

impl<I, F, T> Default for OfKey<I, F, T> {
    fn default() -> Self {
        Self { flights: HashMap::new(), last_value: None }
    }
}

impl<K, I, F, T> Table<K, I, F, T> {
    const fn len(&self) -> usize {
        self.count
    }
}

impl<K: Eq + Hash, I: Eq + Hash, F, T> Table<K, I, F, T> {
    /// The flight that a caller of `key` waits for.
    fn find(&self, key: &FlightKey<K, I>) -> Option<&F> {
        self.keys.get(&key.key)?.flights.get(&key.identity)
    }

    /// Whether another identity has a flight of `key`.
    fn has_other(&self, key: &K, identity: &I) -> bool {
        self.keys.get(key).is_some_and(|of| of.flights.keys().any(|own| own != identity))
    }

    /// The value of the last flight of `key` that completed while others were in progress.
    fn last_value(&self, key: &K) -> Option<&T> {
        self.keys.get(key)?.last_value.as_ref()
    }

    /// Removes the flight. Others of its key may build on `value`.
    fn remove(&mut self, key: &FlightKey<K, I>, value: Option<T>) {
        let Some(of) = self.keys.get_mut(&key.key) else { return };
        self.count -= usize::from(of.flights.remove(&key.identity).is_some());
        if of.flights.is_empty() {
            self.keys.remove(&key.key);
        } else if value.is_some() {
            of.last_value = value;
        }
    }

    /// Forgets the value that flights of `key` would build on, and returns those flights.
    fn forget(&mut self, key: &K) -> impl Iterator<Item = &F> {
        self.keys.get_mut(key).into_iter().flat_map(|of| {
            of.last_value = None;
            of.flights.values()
        })
    }
}

impl<K: Clone + Eq + Hash, I: Clone + Eq + Hash, F, T> Table<K, I, F, T> {
    fn insert(&mut self, key: &FlightKey<K, I>, flight: F) {
        let of = self.keys.entry(key.key.clone()).or_default();
        of.flights.insert(key.identity.clone(), flight);
        self.count += 1;
    }
}
