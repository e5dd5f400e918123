//! The flights by key, and the one that a caller waits for.

use std::collections::HashMap;
use std::hash::Hash;

/// Identifies a flight.
#[derive(Clone, Debug)]
pub struct FlightKey<K, I> {
    pub key: K,
    pub identity: I,
}

/// Flights `F` by key and identity, and the values `T` with which they completed.
pub(super) struct Table<K, I, F, T> {
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
    pub(super) const fn len(&self) -> usize {
        self.count
    }
}

impl<K: Eq + Hash, I: Eq + Hash, F, T> Table<K, I, F, T> {
    /// The flight that a caller of `key` waits for.
    pub(super) fn find(&self, key: &FlightKey<K, I>) -> Option<&F> {
        self.keys.get(&key.key)?.flights.get(&key.identity)
    }

    /// Whether another identity has a flight of `key`.
    pub(super) fn has_other(&self, key: &K, identity: &I) -> bool {
        self.keys.get(key).is_some_and(|of| of.flights.keys().any(|own| own != identity))
    }

    /// The value of the last flight of `key` that completed while others were in progress.
    pub(super) fn last_value(&self, key: &K) -> Option<&T> {
        self.keys.get(key)?.last_value.as_ref()
    }

    /// Removes the flight. Others of its key may build on `value`.
    pub(super) fn remove(&mut self, key: &FlightKey<K, I>, value: Option<T>) {
        let Some(of) = self.keys.get_mut(&key.key) else { return };
        self.count -= usize::from(of.flights.remove(&key.identity).is_some());
        if of.flights.is_empty() {
            self.keys.remove(&key.key);
        } else if value.is_some() {
            of.last_value = value;
        }
    }

    /// Forgets the value that flights of `key` would build on, and returns those flights.
    pub(super) fn forget(&mut self, key: &K) -> impl Iterator<Item = &F> {
        self.keys.get_mut(key).into_iter().flat_map(|of| {
            of.last_value = None;
            of.flights.values()
        })
    }
}

impl<K: Clone + Eq + Hash, I: Clone + Eq + Hash, F, T> Table<K, I, F, T> {
    pub(super) fn insert(&mut self, key: &FlightKey<K, I>, flight: F) {
        let of = self.keys.entry(key.key.clone()).or_default();
        of.flights.insert(key.identity.clone(), flight);
        self.count += 1;
    }
}
