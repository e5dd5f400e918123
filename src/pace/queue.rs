//! The waiting requests of one group: clients in turn, the requests of each in order.

use std::collections::VecDeque;

use crate::types::ClientKey;

/// A waiting request, within its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WaiterId(pub(super) u64);

/// No client's queue is empty.
#[derive(Debug, Default)]
pub(super) struct Queue {
    clients: VecDeque<(ClientKey, VecDeque<WaiterId>)>,
    len: usize,
}

impl Queue {
    pub(super) fn push(&mut self, client: &ClientKey, waiter: WaiterId) {
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

    /// The next waiter of the next client that `may` go; the client's next turn comes last.
    pub(super) fn pop(
        &mut self,
        may: impl Fn(&ClientKey) -> bool,
    ) -> Option<(ClientKey, WaiterId)> {
        let at = self.clients.iter().position(|(key, _)| may(key))?;
        let (client, mut waiters) = self.clients.remove(at)?;
        let waiter = waiters.pop_front()?;
        self.len -= 1;
        if !waiters.is_empty() {
            self.clients.push_back((client.clone(), waiters));
        }
        Some((client, waiter))
    }

    /// Removes `waiter`. Returns whether it was there.
    pub(super) fn remove(&mut self, client: &ClientKey, waiter: WaiterId) -> bool {
        let Some(at) = self.clients.iter().position(|(key, _)| key == client) else { return false };
        let waiters = &mut self.clients[at].1;
        let before = waiters.len();
        waiters.retain(|other| *other != waiter);
        let removed = before - waiters.len();
        self.len -= removed;
        if waiters.is_empty() {
            self.clients.remove(at);
        }
        removed > 0
    }

    /// How many starts come before one more of `client`.
    pub(super) fn ahead_of(&self, client: &ClientKey) -> usize {
        let turn = self.len_of(client) + 1;
        let others = self.clients.iter().filter(|(key, _)| key != client);
        others.map(|(_, waiters)| waiters.len().min(turn)).sum::<usize>() + turn - 1
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The waiters of `client`.
    pub(super) fn len_of(&self, client: &ClientKey) -> usize {
        let own = self.clients.iter().find(|(key, _)| key == client);
        own.map_or(0, |(_, waiters)| waiters.len())
    }

    /// The waiting clients, in turn.
    pub(super) fn clients(&self) -> impl Iterator<Item = &ClientKey> {
        self.clients.iter().map(|(key, _)| key)
    }
}
