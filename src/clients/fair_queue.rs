//! Fair sharing of a bounded resource: waiting clients are served in turn, however many requests
//! each has queued, and no client can take all of it.

use std::collections::VecDeque;

use crate::types::ClientKey;

/// A client may take one more unit while it has less than this many times the free ones. One
/// client alone leaves an eighth, several together leave less, and a client's first unit is never
/// refused while any is free.
const UNITS_PER_FREE: usize = 7;

/// At least this many waiters are queued between two sweeps.
const SWEEP_AFTER_MIN: usize = 1024;

/// Waiters by client: clients in turn, the waiters of each in order. Takes no lock, and treats a
/// waiter `W` as opaque.
#[derive(Debug)]
pub struct ClientQueue<W> {
    /// No client's queue is empty.
    clients: VecDeque<(ClientKey, VecDeque<W>)>,
    len: usize,
}

impl<W> Default for ClientQueue<W> {
    fn default() -> Self {
        Self { clients: VecDeque::new(), len: 0 }
    }
}

impl<W> ClientQueue<W> {
    /// Adds a waiter behind the client's others.
    pub fn push(&mut self, client: &ClientKey, waiter: W) {
        self.len += 1;
        match self.clients.iter_mut().find(|(key, _)| key == client) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => {
                // Most requests wait alone; a queue makes room for four at once.
                if self.clients.is_empty() {
                    self.clients.reserve_exact(1);
                }
                self.clients.push_back((client.clone(), VecDeque::from([waiter])));
            }
        }
    }

    /// The next waiter of the next client that `may` go, without those that have left; the client's
    /// next turn comes last.
    pub fn pop(
        &mut self,
        may: impl Fn(&ClientKey) -> bool,
        has_left: impl Fn(&W) -> bool,
    ) -> Option<(ClientKey, W)> {
        loop {
            let at = self.clients.iter().position(|(key, _)| may(key))?;
            let (client, mut waiters) = self.clients.remove(at)?;
            let before = waiters.len();
            let waiter = std::iter::from_fn(|| waiters.pop_front()).find(|it| !has_left(it));
            self.len -= before - waiters.len();
            if !waiters.is_empty() {
                self.clients.push_back((client.clone(), waiters));
            }
            if let Some(waiter) = waiter {
                return Some((client, waiter));
            }
        }
    }

    /// Removes the first waiters of `client` that have left.
    fn forget_first(&mut self, client: &ClientKey, has_left: impl Fn(&W) -> bool) {
        let own = self.clients.iter_mut().find(|(key, _)| key == client);
        let Some((_, waiters)) = own else { return };
        while waiters.len() > 1 && waiters.pop_front_if(|waiter| has_left(waiter)).is_some() {
            self.len -= 1;
        }
    }

    /// Removes the waiters that have left.
    fn sweep(&mut self, has_left: impl Fn(&W) -> bool) {
        self.clients.iter_mut().for_each(|(_, waiters)| waiters.retain(|it| !has_left(it)));
        self.clients.retain(|(_, waiters)| !waiters.is_empty());
        self.len = self.clients.iter().map(|(_, waiters)| waiters.len()).sum();
    }

    /// Removes the newest waiter of the client that has most of them.
    fn drop_newest_of_most(&mut self) -> Option<(ClientKey, W)> {
        let at = (0..self.clients.len()).max_by_key(|at| self.clients[*at].1.len())?;
        let (key, waiters) = &mut self.clients[at];
        let dropped = (key.clone(), waiters.pop_back()?);
        self.len -= 1;
        if waiters.is_empty() {
            self.clients.remove(at);
        }
        Some(dropped)
    }

    /// How many turns come before one more of `client`.
    pub fn ahead_of(&self, client: &ClientKey) -> usize {
        let turn = self.len_of(client) + 1;
        let others = self.clients.iter().filter(|(key, _)| key != client);
        others.map(|(_, waiters)| waiters.len().min(turn)).sum::<usize>() + turn - 1
    }

    /// How many wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many waiters `client` has.
    pub fn len_of(&self, client: &ClientKey) -> usize {
        let own = self.clients.iter().find(|(key, _)| key == client);
        own.map_or(0, |(_, waiters)| waiters.len())
    }

    /// The waiting clients, in turn.
    pub fn clients(&self) -> impl Iterator<Item = &ClientKey> {
        self.clients.iter().map(|(key, _)| key)
    }
}

impl<W: PartialEq> ClientQueue<W> {
    /// Whether `waiter` is queued for `client`.
    pub fn contains(&self, client: &ClientKey, waiter: &W) -> bool {
        self.clients.iter().any(|(key, waiters)| key == client && waiters.contains(waiter))
    }

    /// Removes `waiter`. Returns whether it was there.
    pub fn remove(&mut self, client: &ClientKey, waiter: &W) -> bool {
        let Some(at) = self.clients.iter().position(|(key, _)| key == client) else { return false };
        let waiters = &mut self.clients[at].1;
        let Some(place) = waiters.iter().position(|it| it == waiter) else { return false };
        waiters.remove(place);
        self.len -= 1;
        if waiters.is_empty() {
            self.clients.remove(at);
        }
        true
    }
}

/// Units in use and waiters queued, by client.
#[derive(Debug)]
pub struct FairQueue<W> {
    /// A list, because few clients have units at a time and scanning it is faster than a hash
    /// table. A client without a unit has no entry.
    units_by_client: Vec<(ClientKey, usize)>,
    in_use: usize,
    waiting: ClientQueue<W>,
    /// Waiters queued since the last sweep of cancelled ones, and the number that triggers the next
    /// sweep.
    entered: usize,
    sweep_after: usize,
}

impl<W> Default for FairQueue<W> {
    fn default() -> Self {
        Self {
            units_by_client: Vec::new(),
            in_use: 0,
            waiting: ClientQueue::default(),
            entered: 0,
            sweep_after: SWEEP_AFTER_MIN,
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
            self.waiting.sweep(&has_left);
            // The next sweep comes after as many entries as there are waiters now, so each is
            // checked once or twice.
            (self.entered, self.sweep_after) = (0, SWEEP_AFTER_MIN.max(self.waiting.len()));
        }
        self.waiting.push(client, waiter);
        // The oldest waiters time out first, so what remains is those that still wait.
        self.waiting.forget_first(client, has_left);
    }

    /// The next waiter of the next client that may take one of `max` units; the client has the
    /// unit from then on.
    pub fn next(&mut self, max: usize, has_left: impl Fn(&W) -> bool) -> Option<(ClientKey, W)> {
        let Self { units_by_client, in_use, waiting, .. } = self;
        let may_take = |key: &ClientKey| may_take(units_by_client, *in_use, key, max);
        let (key, waiter) = waiting.pop(may_take, has_left)?;
        self.add_unit(&key);
        Some((key, waiter))
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
        self.waiting.drop_newest_of_most()
    }

    /// Removes cancelled waiters.
    pub fn sweep(&mut self, has_left: impl Fn(&W) -> bool) {
        self.waiting.sweep(has_left);
    }

    /// How many units are in use.
    pub const fn in_use(&self) -> usize {
        self.in_use
    }

    /// How many units `client` has.
    pub fn units_of(&self, client: &ClientKey) -> usize {
        units_of(&self.units_by_client, client)
    }

    /// Whether any waiter is queued, cancelled ones included.
    pub const fn is_contended(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The waiters, cancelled ones included.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        self.waiting.clients.iter().flat_map(|(_, waiters)| waiters)
    }

    /// The waiting clients in the order of their turns, each with its waiters.
    pub fn clients(&self) -> impl Iterator<Item = (&ClientKey, impl Iterator<Item = &W>)> {
        self.waiting.clients.iter().map(|(client, waiters)| (client, waiters.iter()))
    }

    fn may_take(&self, client: &ClientKey, max: usize) -> bool {
        may_take(&self.units_by_client, self.in_use, client, max)
    }

    fn add_unit(&mut self, client: &ClientKey) {
        self.in_use += 1;
        match self.units_by_client.iter_mut().find(|(key, _)| key == client) {
            Some((_, count)) => *count += 1,
            None => self.units_by_client.push((client.clone(), 1)),
        }
    }
}

fn units_of(units_by_client: &[(ClientKey, usize)], client: &ClientKey) -> usize {
    units_by_client.iter().find(|(key, _)| key == client).map_or(0, |(_, count)| *count)
}

/// The proxy's own fetches serve all clients, so its share is unlimited.
fn may_take(units: &[(ClientKey, usize)], in_use: usize, client: &ClientKey, max: usize) -> bool {
    let free = max.saturating_sub(in_use);
    let most = free.saturating_mul(UNITS_PER_FREE);
    free > 0 && (*client == ClientKey::Proxy || units_of(units, client) < most)
}

#[cfg(test)]
mod tests {
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
