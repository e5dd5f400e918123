//! A semaphore that grants permits to clients in turn, and never all of them to one client.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};

use tokio::sync::oneshot;

use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// A semaphore that is fair between clients (see [`FairQueue`]).
#[derive(Debug)]
pub struct FairSemaphore(Lock<Table>);

#[derive(Debug)]
struct Table {
    max: usize,
    turns: FairQueue<oneshot::Sender<SemaphorePermit>>,
}

/// One permit; released when dropped.
#[derive(Debug)]
pub struct SemaphorePermit {
    client: ClientKey,
    semaphore: Arc<FairSemaphore>,
}

impl FairSemaphore {
    /// With `max` permits.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Lock::new(Table { max, turns: FairQueue::default() })))
    }

    /// A permit, if `client` may have one without waiting.
    pub fn try_acquire(self: &Arc<Self>, client: &ClientKey) -> Option<SemaphorePermit> {
        let mut table = self.table();
        let Table { max, turns } = &mut *table;
        turns.take(client, *max).then(|| self.permit(client.clone()))
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    pub async fn acquire(self: &Arc<Self>, client: &ClientKey) -> SemaphorePermit {
        loop {
            if let Some(permit) = self.try_acquire(client) {
                return permit;
            }
            let (sender, receiver) = oneshot::channel();
            self.table().turns.enqueue(client, sender, oneshot::Sender::is_closed);
            // A permit may have been released in between.
            self.grant();
            if let Ok(permit) = receiver.await {
                return permit;
            }
        }
    }

    /// Changes the number of permits; permits already granted stay valid.
    pub fn resize(self: &Arc<Self>, max: usize) {
        self.table().max = max;
        self.grant();
    }

    /// How many permits there are.
    pub fn max(&self) -> usize {
        self.table().max
    }

    /// How many permits are granted.
    pub fn in_use(&self) -> usize {
        self.table().turns.in_use()
    }

    /// Grants free permits to waiters. Sends without the lock: a permit whose waiter has left is
    /// released at once, which locks again.
    fn grant(self: &Arc<Self>) {
        let mut granted = Vec::new();
        {
            let mut table = self.table();
            let Table { max, turns } = &mut *table;
            granted.extend(std::iter::from_fn(|| turns.next(*max, oneshot::Sender::is_closed)));
        }
        for (client, waiter) in granted {
            let _ = waiter.send(self.permit(client));
        }
    }

    fn permit(self: &Arc<Self>, client: ClientKey) -> SemaphorePermit {
        SemaphorePermit { client, semaphore: Arc::clone(self) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Also locked while dropping, where a panic would be a second one.
        self.0.lock()
    }
}

impl Drop for SemaphorePermit {
    fn drop(&mut self) {
        let is_contended = {
            let mut table = self.semaphore.table();
            table.turns.release(&self.client);
            table.turns.is_contended()
        };
        if is_contended {
            self.semaphore.grant();
        }
    }
}

// Fair sharing of a bounded resource: waiting clients are served in turn, however many requests
// each has queued, and no client can take all of it.

/// A client may take one more unit while it has less than this many times the free ones. One
/// client alone leaves an eighth, several together leave less, and a client's first unit is never
/// refused while any is free.
const UNITS_PER_FREE: usize = 7;

/// Units in use and waiters queued, by client. Takes no lock, and treats a waiter `W` as opaque.
#[derive(Debug)]
pub struct FairQueue<W> {
    /// A list, because few clients have units at a time and scanning it is faster than a hash
    /// table. A client without a unit has no entry.
    units_by_client: Vec<(ClientKey, usize)>,
    in_use: usize,
    /// The waiting clients in the order of their turns, each with its waiters. No queue is empty.
    waiting: VecDeque<(ClientKey, VecDeque<W>)>,
    /// Waiters queued since the last sweep of cancelled ones, and the number that triggers the next
    /// sweep.
    entered: usize,
    sweep_after: usize,
}

/// At least this many waiters are queued between two sweeps.
const SWEEP_AFTER_MIN: usize = 1024;

impl<W> Default for FairQueue<W> {
    fn default() -> Self {
        let (entered, sweep_after) = (0, SWEEP_AFTER_MIN);
        Self {
            units_by_client: Vec::new(),
            in_use: 0,
            waiting: VecDeque::new(),
            entered,
            sweep_after,
        }
    }
}

impl<W> FairQueue<W> {
    /// Takes one of `max` units for `client`, unless others already wait.
    pub fn take(&mut self, client: &ClientKey, max: usize) -> bool {
        let is_free = self.has_free(client, max);
        if is_free {
            self.add_unit(client);
        }
        is_free
    }

    /// Whether [`Self::take`] would succeed.
    pub fn has_free(&self, client: &ClientKey, max: usize) -> bool {
        self.waiting.is_empty() && self.may_take(client, max)
    }

    /// Queues `waiter`. Cancelled waiters are removed meanwhile: at once at the front of their
    /// client's queue, elsewhere with the next sweep.
    pub fn enqueue(&mut self, client: &ClientKey, waiter: W, has_left: impl Fn(&W) -> bool) {
        self.entered += 1;
        if self.entered > self.sweep_after {
            self.sweep(&has_left);
            // The next sweep comes after as many entries as there are waiters now, so each is
            // checked once or twice.
            (self.entered, self.sweep_after) = (0, SWEEP_AFTER_MIN.max(self.waiting().count()));
        }
        match self.waiting.iter_mut().find(|(key, _)| key == client) {
            Some((_, waiters)) => {
                // The oldest waiters time out first, so what remains is those that still wait.
                while waiters.pop_front_if(|waiter| has_left(waiter)).is_some() {}
                waiters.push_back(waiter);
            }
            None => self.waiting.push_back((client.clone(), VecDeque::from([waiter]))),
        }
    }

    /// The next waiter of the next client that may take one of `max` units; the client has the
    /// unit from then on.
    pub fn next(&mut self, max: usize, has_left: impl Fn(&W) -> bool) -> Option<(ClientKey, W)> {
        loop {
            let place = self.waiting.iter().position(|(key, _)| self.may_take(key, max))?;
            let (key, mut waiters) = self.waiting.remove(place)?;
            let waiter =
                std::iter::from_fn(|| waiters.pop_front()).find(|waiter| !has_left(waiter));
            if !waiters.is_empty() {
                self.waiting.push_back((key.clone(), waiters));
            }
            if let Some(waiter) = waiter {
                self.add_unit(&key);
                return Some((key, waiter));
            }
        }
    }

    /// Releases a unit of `client`.
    pub fn release(&mut self, client: &ClientKey) {
        self.in_use -= 1;
        if let Some(place) = self.units_by_client.iter().position(|(key, _)| key == client) {
            self.units_by_client[place].1 -= 1;
            if self.units_by_client[place].1 == 0 {
                self.units_by_client.swap_remove(place);
            }
        }
    }

    /// Removes the newest waiter of the client that has most of them.
    pub fn drop_newest_of_most(&mut self) -> Option<(ClientKey, W)> {
        let place = (0..self.waiting.len()).max_by_key(|place| self.waiting[*place].1.len())?;
        let (key, waiters) = &mut self.waiting[place];
        let dropped = (key.clone(), waiters.pop_back()?);
        if waiters.is_empty() {
            self.waiting.remove(place);
        }
        Some(dropped)
    }

    /// Removes cancelled waiters.
    pub fn sweep(&mut self, has_left: impl Fn(&W) -> bool) {
        self.waiting.iter_mut().for_each(|(_, waiters)| waiters.retain(|waiter| !has_left(waiter)));
        self.waiting.retain(|(_, waiters)| !waiters.is_empty());
    }

    /// How many units are in use.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// How many units `client` has.
    pub fn units_of(&self, client: &ClientKey) -> usize {
        self.units_by_client.iter().find(|(key, _)| key == client).map_or(0, |(_, count)| *count)
    }

    /// Whether any waiter is queued, cancelled ones included.
    pub fn is_contended(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The waiters, cancelled ones included.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.iter().flat_map(|(_, waiters)| waiters)
    }

    /// The waiting clients in the order of their turns, each with its waiters.
    pub fn clients(&self) -> impl Iterator<Item = (&ClientKey, impl Iterator<Item = &W>)> {
        self.waiting.iter().map(|(client, waiters)| (client, waiters.iter()))
    }

    /// The proxy's own fetches serve all clients, so its share is unlimited.
    fn may_take(&self, client: &ClientKey, max: usize) -> bool {
        let free = max.saturating_sub(self.in_use);
        free > 0
            && (*client == ClientKey::Proxy
                || self.units_of(client) < free.saturating_mul(UNITS_PER_FREE))
    }

    fn add_unit(&mut self, client: &ClientKey) {
        self.in_use += 1;
        match self.units_by_client.iter_mut().find(|(key, _)| key == client) {
            Some((_, count)) => *count += 1,
            None => self.units_by_client.push((client.clone(), 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn client(number: u8) -> ClientKey {
        ClientKey::of([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn clients_take_turns_and_who_left_is_passed_over() {
        let semaphore = FairSemaphore::new(1);
        let permit = semaphore.try_acquire(&client(1)).unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        for (number, leaves) in [(1, false), (1, false), (2, true), (2, false)] {
            let (semaphore, order) = (Arc::clone(&semaphore), Arc::clone(&order));
            let task = waiting.spawn(async move {
                let _permit = semaphore.acquire(&client(number)).await;
                order.lock().unwrap().push(number);
            });
            tokio::task::yield_now().await;
            if leaves {
                task.abort();
                tokio::task::yield_now().await;
            }
        }
        drop(permit);
        while waiting.join_next().await.is_some() {}
        assert_eq!(*order.lock().unwrap(), [1, 2, 1]);
        assert_eq!(semaphore.in_use(), 0);
    }

    #[tokio::test]
    async fn more_permits_wake_who_waits() {
        let semaphore = FairSemaphore::new(0);
        assert!(semaphore.try_acquire(&client(1)).is_none());
        let other = Arc::clone(&semaphore);
        let waiting = tokio::spawn(async move { other.acquire(&client(1)).await });
        tokio::task::yield_now().await;
        semaphore.resize(1);
        drop(waiting.await.unwrap());
        assert_eq!(semaphore.in_use(), 0);
    }
}

#[cfg(test)]
mod fair_queue_tests {
    use super::*;

    fn client(number: u8) -> ClientKey {
        ClientKey::of([192, 0, 2, number].into())
    }

    fn taken(turns: &mut FairQueue<u8>, client: &ClientKey, max: usize) -> usize {
        std::iter::repeat_with(|| turns.take(client, max)).take_while(|taken| *taken).count()
    }

    #[test]
    fn one_client_leaves_an_eighth_and_two_leave_an_eighth_of_that() {
        for (max, most) in
            [(1, 1), (2, 2), (8, 7), (9, 8), (16, 14), (17, 15), (256, 224), (4096, 3584)]
        {
            assert_eq!(taken(&mut FairQueue::default(), &client(1), max), most, "{max}");
        }
        let mut turns = FairQueue::default();
        let counts = [1, 2, 3, 4].map(|number| taken(&mut turns, &client(number), 256));
        assert_eq!(counts, [224, 28, 4, 0], "three clients that take all they may");
    }

    #[test]
    fn the_proxy_itself_may_take_what_is_left() {
        let mut turns = FairQueue::default();
        taken(&mut turns, &client(1), 16);
        assert_eq!(taken(&mut turns, &ClientKey::Proxy, 16), 2);
        assert!(!turns.take(&client(2), 16));
    }

    #[test]
    fn the_newest_waiter_of_the_client_with_most_of_them_goes_first() {
        let mut turns = FairQueue::default();
        for (number, waiter) in [(1, 10), (2, 20), (1, 11), (1, 12), (2, 21)] {
            turns.enqueue(&client(number), waiter, |_| false);
        }
        let dropped = || turns.drop_newest_of_most().map(|(_, waiter)| waiter);
        let dropped: Vec<u8> = std::iter::from_fn(dropped).collect();
        assert_eq!(dropped, [12, 21, 11, 20, 10]);
        assert!(!turns.is_contended());
    }

    #[test]
    fn waiters_that_have_left_are_forgotten() {
        let mut turns = FairQueue::default();
        for waiter in 0..10 {
            turns.enqueue(&client(waiter % 2), waiter, |_| false);
        }
        turns.sweep(|waiter| waiter % 2 == 0);
        assert_eq!(turns.waiting().copied().collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
        assert_eq!(turns.next(1, |waiter| *waiter < 7).map(|(_, waiter)| waiter), Some(7));
    }
}
