//! Which running fetches are cancelled for clients that wait for a permit. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use foldhash::{HashMap, HashMapExt as _};

use super::fetch::{Fetch, Id, Stage};
use crate::types::client_key::ClientKey;

/// A fetch that may be cancelled.
pub(super) struct Candidate {
    id: Id,
    /// The client that holds its permit.
    holder: ClientKey,
    /// The waiting client with the fewest permits; `None` if none waits.
    owner: Option<ClientKey>,
    is_answered: bool,
}

/// The number of permits of each client, cancelled fetches excluded.
pub(super) struct Holdings(HashMap<ClientKey, isize>);

/// The fetches of `running` that may be cancelled, in their order, and the time until the next one
/// may be: `busy_wait` is how long one that requests wait for runs undisturbed.
pub(super) fn candidates<'a>(
    running: impl Iterator<Item = (Id, &'a Fetch)>,
    holdings: &Holdings,
    now: Instant,
    busy_wait: Duration,
) -> (VecDeque<Candidate>, Duration) {
    let mut next = busy_wait;
    let mut candidates = VecDeque::new();
    for (id, fetch) in running {
        let Stage::Running { client, since, cancel: Some(_) } = &fetch.stage else { continue };
        let left = busy_wait.saturating_sub(now.saturating_duration_since(*since));
        if !fetch.waiting.is_empty() && !left.is_zero() {
            next = next.min(left);
            continue;
        }
        let lightest = fetch.waiting.iter().min_by_key(|(key, _)| holdings.of(key));
        candidates.push_back(Candidate {
            id,
            holder: client.clone(),
            owner: lightest.map(|(key, _)| key.clone()),
            is_answered: fetch.progress.has_answer(),
        });
    }
    (candidates, next)
}

/// The fetches to cancel, at most `wanted` and for one client after the other in turn. `candidates`
/// are in the order of their start.
pub(super) fn choose(
    mut candidates: VecDeque<Candidate>,
    mut holdings: Holdings,
    mut clients: Vec<ClientKey>,
    wanted: usize,
) -> Vec<Id> {
    let mut chosen = Vec::new();
    while chosen.len() < wanted && !clients.is_empty() && !candidates.is_empty() {
        clients.retain(|client| {
            let best = candidates
                .iter()
                .enumerate()
                .filter_map(|(at, candidate)| Some((holdings.rank(candidate, client)?, at)));
            let Some((_, at)) = best.min().filter(|_| chosen.len() < wanted) else { return false };
            let Some(candidate) = candidates.remove(at) else { return false };
            holdings.add(&candidate.holder, -1);
            holdings.add(client, 1);
            chosen.push(candidate.id);
            true
        });
    }
    chosen
}

impl Holdings {
    /// `holders`: the client of each permit.
    pub(super) fn new<'a>(holders: impl Iterator<Item = &'a ClientKey>) -> Self {
        let mut holdings = Self(HashMap::new());
        holders.for_each(|client| holdings.add(client, 1));
        holdings
    }

    /// Counts one more permit of `client`, or one less.
    fn add(&mut self, client: &ClientKey, count: isize) {
        *self.0.entry(client.clone()).or_default() += count;
    }

    fn of(&self, client: &ClientKey) -> isize {
        self.0.get(client).copied().unwrap_or(0)
    }

    /// The order in which fetches are cancelled for `client`; `None`: not at all.
    fn rank(&self, candidate: &Candidate, client: &ClientKey) -> Option<(u8, bool, isize)> {
        let Some(owner) = &candidate.owner else { return Some((0, false, 0)) };
        let (theirs, own) = (self.of(owner), self.of(client));
        if owner == client {
            (!candidate.is_answered).then_some((2, false, 0))
        } else {
            (theirs > own + 1).then_some((1, candidate.is_answered, -theirs))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn client(number: u8) -> ClientKey {
        ClientKey::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, number)))
    }

    /// The fetches that are cancelled for `waiting`, of those with this holder, owner and answer.
    fn chosen(running: &[(u8, Option<u8>, bool)], waiting: &[u8], wanted: usize) -> Vec<Id> {
        let holders: Vec<_> = running.iter().map(|(holder, ..)| client(*holder)).collect();
        let candidates = running.iter().zip(0..).map(|((holder, owner, is_answered), id)| {
            let (holder, owner) = (client(*holder), owner.map(client));
            Candidate { id, holder, owner, is_answered: *is_answered }
        });
        let clients = waiting.iter().map(|number| client(*number)).collect();
        choose(candidates.collect(), Holdings::new(holders.iter()), clients, wanted)
    }

    #[test]
    fn fetches_are_cancelled_in_the_order_of_their_worth() {
        for (running, waiting, wanted, expected) in [
            // Without a request that waits, before any other.
            (vec![(1, Some(1), false), (1, None, false)], vec![2], 1, vec![1]),
            // Of a client with at least two permits more; without an answer first.
            (vec![(1, Some(1), true), (1, Some(1), false)], vec![2], 1, vec![1]),
            (vec![(1, Some(1), false)], vec![2], 1, vec![]),
            (vec![(1, Some(1), false), (1, Some(1), false)], vec![2], 2, vec![0]),
            // Its own, unless that has an answer.
            (vec![(2, Some(2), false)], vec![2], 1, vec![0]),
            (vec![(2, Some(2), true)], vec![2], 1, vec![]),
            // Each client in its turn, and no more than are wanted.
            (vec![(1, Some(1), false); 4], vec![2, 3], 4, vec![0, 1]),
            (vec![(1, None, false); 4], vec![2, 3], 3, vec![0, 1, 2]),
            (vec![(1, None, false); 4], vec![], 3, vec![]),
        ] {
            let cancelled = chosen(&running, &waiting, wanted);
            assert_eq!(cancelled, expected, "{running:?} for {waiting:?}");
        }
    }
}
