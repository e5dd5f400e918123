//! The flights by key, and the one that a caller waits for.

use std::collections::HashMap;
use std::hash::Hash;

/// Identifies a flight.
#[derive(Clone, Debug)]
pub struct FlightKey<K, I> {
    pub key: K,
    pub identity: I,
    /// Whether callers of other identities wait for it.
    pub for_all_identities: bool,
}

/// Flights `F` by key and identity, and the values `T` with which they completed.
pub(super) struct Table<K, I, F, T> {
    keys: HashMap<K, OfKey<I, F, T>>,
    count: usize,
}

struct OfKey<I, F, T> {
    /// The one for all identities, and the identity that began it.
    for_all: Option<(I, F)>,
    /// Those for one identity each.
    own: HashMap<I, F>,
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
        Self { for_all: None, own: HashMap::new(), last_value: None }
    }
}

impl<K, I, F, T> Table<K, I, F, T> {
    pub(super) const fn len(&self) -> usize {
        self.count
    }
}

impl<K: Eq + Hash, I: Eq + Hash, F, T> Table<K, I, F, T> {
    /// The flight that a caller of `key` waits for: if it is for all identities, also one that
    /// another identity began.
    pub(super) fn find(&self, key: &FlightKey<K, I>) -> Option<&F> {
        let flights = self.keys.get(&key.key)?;
        let joins = |identity: &I| key.for_all_identities || *identity == key.identity;
        let for_all = flights.for_all.as_ref().filter(|(identity, _)| joins(identity));
        for_all.map(|(_, flight)| flight).or_else(|| flights.own.get(&key.identity))
    }

    /// The value of the last flight of `key` that completed while others were in progress.
    pub(super) fn last_value(&self, key: &K) -> Option<&T> {
        self.keys.get(key)?.last_value.as_ref()
    }

    /// Removes the flight. Others of its key may build on `value`.
    pub(super) fn remove(&mut self, key: &FlightKey<K, I>, value: Option<T>) {
        let Some(flights) = self.keys.get_mut(&key.key) else { return };
        let was_there = if key.for_all_identities {
            flights.for_all.take().is_some()
        } else {
            flights.own.remove(&key.identity).is_some()
        };
        self.count -= usize::from(was_there);
        if flights.for_all.is_none() && flights.own.is_empty() {
            self.keys.remove(&key.key);
        } else if value.is_some() {
            flights.last_value = value;
        }
    }

    /// Forgets the value that flights of `key` would build on, and returns those flights.
    pub(super) fn forget(&mut self, key: &K) -> impl Iterator<Item = &F> {
        self.keys.get_mut(key).into_iter().flat_map(|flights| {
            flights.last_value = None;
            flights.for_all.iter().map(|(_, flight)| flight).chain(flights.own.values())
        })
    }
}

impl<K: Clone + Eq + Hash, I: Clone + Eq + Hash, F, T> Table<K, I, F, T> {
    pub(super) fn insert(&mut self, key: &FlightKey<K, I>, flight: F) {
        let flights = self.keys.entry(key.key.clone()).or_default();
        if key.for_all_identities {
            flights.for_all = Some((key.identity.clone(), flight));
        } else {
            flights.own.insert(key.identity.clone(), flight);
        }
        self.count += 1;
    }
}
