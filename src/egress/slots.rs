//! The bound on exchanges under way with one origin, over all workers, and its fair use: who waits
//! gets a slot in turn with the other clients that wait, however many each has waiting, and no client
//! can have all of them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::error::{Error, Failure};
use crate::clients::Key;
use crate::origin::Origin;

/// Of so many slots one is kept from each client, for others.
const KEPT_FOR_OTHERS: usize = 8;

/// A table of origins that are in use right now; an origin without an exchange has no entry.
#[derive(Debug)]
pub struct Slots(Mutex<Table>);

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
    slots: Weak<Slots>,
}

/// Who has slots of an origin, and who waits for one.
#[derive(Debug, Default)]
struct Queue {
    held: HashMap<Key, usize>,
    in_use: usize,
    /// The clients that wait, in the order of their turns, each with its waiters. None is empty.
    waiting: VecDeque<(Key, VecDeque<oneshot::Sender<Slot>>)>,
}

impl Slots {
    pub fn new(per_origin: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Table { per_origin, origins: HashMap::new() })))
    }

    /// Waits for a slot of `origin`, at most `deadline`.
    pub async fn acquire(
        self: &Arc<Self>,
        origin: &Origin,
        asker: &Key,
        deadline: Duration,
    ) -> Result<Slot, Error> {
        let (sender, receiver) = oneshot::channel();
        self.enter(origin, asker, sender);
        // A slot that comes when nobody waits any more is given back with the channel.
        if let Ok(Ok(slot)) = timeout(deadline, receiver).await {
            return Ok(slot);
        }
        let detail = format!(
            "{} exchanges with {origin} are under way and none ended within {deadline:?} \
             (egress.max_per_origin)",
            self.table().per_origin
        );
        Err(Error::new(Failure::ConnectionLimit, detail))
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

    /// Without the lock: a slot that nobody takes any more comes back at once.
    fn hand_over(self: &Arc<Self>, origin: &Origin, granted: Granted) {
        for (asker, waiter) in granted {
            let slot = Slot { origin: origin.clone(), asker, slots: Arc::downgrade(self) };
            let _ = waiter.send(slot);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also taken while dropping, where a panic would be a second one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Gives out what slots of `origin` are free; where none is in use then, the origin is forgotten.
    fn grant(&mut self, origin: &Origin) -> Granted {
        let max = self.per_origin;
        let share = max - max / KEPT_FOR_OTHERS;
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
            let has = |key: &Key| self.held.get(key).copied().unwrap_or_default();
            let place = self.waiting.iter().position(|(key, _)| *key == Key::Proxy || has(key) < share)?;
            let (key, mut waiters) = self.waiting.remove(place)?;
            let waiter = std::iter::from_fn(|| waiters.pop_front()).find(|waiter| !waiter.is_closed());
            if !waiters.is_empty() {
                self.waiting.push_back((key.clone(), waiters));
            }
            if let Some(waiter) = waiter {
                *self.held.entry(key.clone()).or_default() += 1;
                self.in_use += 1;
                return Some((key, waiter));
            }
        }
    }

    fn release(&mut self, asker: &Key) {
        self.in_use -= 1;
        if let Some(count) = self.held.get_mut(asker) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(asker);
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
        if let Some(slots) = self.slots.upgrade() {
            slots.leave(&self.origin, &self.asker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::split_url;

    fn origin() -> Origin {
        split_url(b"http://example.com/").unwrap().0
    }

    fn client(number: u8) -> Key {
        Key::of([192, 0, 2, number].into())
    }

    async fn at_once(slots: &Arc<Slots>, asker: &Key) -> Option<Slot> {
        slots.acquire(&origin(), asker, Duration::ZERO).await.ok()
    }

    #[tokio::test]
    async fn an_origin_has_so_many_slots_and_an_entry_only_while_used() {
        let slots = Slots::new(2);
        let first = at_once(&slots, &client(1)).await.unwrap();
        let second = at_once(&slots, &client(1)).await.unwrap();
        let third = slots.acquire(&origin(), &client(1), Duration::from_millis(1)).await;
        assert_eq!(third.unwrap_err().failure, Failure::ConnectionLimit);
        drop(first);
        at_once(&slots, &client(1)).await.unwrap();
        drop(second);
        assert!(slots.table().origins.is_empty());
    }

    #[tokio::test]
    async fn whoever_waits_gets_a_slot_in_turn_with_the_other_clients() {
        let slots = Slots::new(1);
        let taken = at_once(&slots, &client(1)).await.unwrap();
        let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
        let mut waiters = Vec::new();
        for number in [1, 1, 1, 1, 2, 2, 3] {
            let (asked, sender, before) = (Arc::clone(&slots), sender.clone(), waiting(&slots));
            waiters.push(tokio::spawn(async move {
                let slot = asked.acquire(&origin(), &client(number), Duration::from_secs(20)).await;
                sender.send(number).unwrap();
                drop(slot.unwrap());
            }));
            while waiting(&slots) == before {
                tokio::task::yield_now().await;
            }
        }
        drop((taken, sender));
        let mut served = Vec::new();
        while let Some(number) = order.recv().await {
            served.push(number);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 1, 1]);
        assert!(slots.table().origins.is_empty());
    }

    #[tokio::test]
    async fn no_client_has_all_slots_of_an_origin_and_a_fetch_for_all_is_no_client() {
        let slots = Slots::new(16);
        let mut held = Vec::new();
        while let Some(slot) = at_once(&slots, &client(1)).await {
            held.push(slot);
        }
        assert_eq!(held.len(), 14);
        held.push(at_once(&slots, &client(2)).await.unwrap());
        held.push(at_once(&slots, &Key::Proxy).await.unwrap());
        assert!(at_once(&slots, &client(2)).await.is_none());
        drop(held);
        assert!(slots.table().origins.is_empty());
    }

    #[tokio::test]
    async fn those_who_gave_up_are_passed_over_and_not_kept() {
        let slots = Slots::new(1);
        let taken = at_once(&slots, &client(1)).await.unwrap();
        for _ in 0..100 {
            assert!(at_once(&slots, &client(2)).await.is_none());
        }
        assert_eq!(waiting(&slots), 1, "the last one is passed over when its turn comes");
        drop(taken);
        assert!(slots.table().origins.is_empty());
        at_once(&slots, &client(3)).await.unwrap();
    }

    #[tokio::test]
    async fn another_bound_holds_at_once_also_for_an_origin_in_use() {
        let slots = Slots::new(3);
        let mut held = Vec::new();
        for number in 0..2 {
            held.push(at_once(&slots, &client(number)).await.unwrap());
        }
        slots.change(1);
        assert!(at_once(&slots, &client(3)).await.is_none());
        held.pop();
        assert!(at_once(&slots, &client(3)).await.is_none(), "one is in use, and one is the bound");
        let asked = Arc::clone(&slots);
        let waiter = tokio::spawn(async move {
            asked.acquire(&origin(), &client(3), Duration::from_secs(20)).await.unwrap()
        });
        while waiting(&slots) == 0 {
            tokio::task::yield_now().await;
        }
        slots.change(2);
        held.push(waiter.await.unwrap());
        assert!(at_once(&slots, &client(4)).await.is_none());
        held.clear();
        assert!(slots.table().origins.is_empty());
    }

    fn waiting(slots: &Arc<Slots>) -> usize {
        slots
            .table()
            .origins
            .values()
            .flat_map(|queue| &queue.waiting)
            .map(|(_, waiters)| waiters.len())
            .sum()
    }
}
