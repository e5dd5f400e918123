//! A fixed number of counters that only grow.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// `N` counters, by their index. Each value is exact; values read together are of about one moment.
#[derive(Debug)]
pub struct Counters<const N: usize>([AtomicU64; N]);

impl<const N: usize> Counters<N> {
    /// Adds `more` to the counter at `index`; wraps around.
    pub fn add(&self, index: usize, more: u64) {
        self.0[index].fetch_add(more, Ordering::Relaxed);
    }

    /// The value of the counter at `index`.
    pub fn value(&self, index: usize) -> u64 {
        self.0[index].load(Ordering::Relaxed)
    }

    /// All values.
    pub fn values(&self) -> [u64; N] {
        array::from_fn(|index| self.value(index))
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn additions_of_all_threads_are_counted() {
        let counters = Counters::<3>::default();
        thread::scope(|scope| {
            for thread in 0..24 {
                let counters = &counters;
                scope.spawn(move || (0..100).for_each(|_| counters.add(1, thread)));
            }
        });
        counters.add(2, u64::MAX);
        counters.add(2, 2);
        assert_eq!(counters.values(), [0, 100 * (0..24).sum::<u64>(), 1]);
        assert_eq!(counters.value(2), 1);
    }
}
