//! ShardedCounters that only grow, in several rows, one for each of the first threads that count: to add to one that
//! another worker's processor has just added to means to fetch it from there first, with each request.

use std::array;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Threads beyond share them.
const ROWS: usize = 8;

/// `N` numbers. Each is exact; together they are of about one moment.
#[derive(Debug)]
pub struct ShardedCounters<const N: usize>([Row<N>; ROWS]);

/// In pairs of cache lines, which processors fetch together.
#[derive(Debug)]
#[repr(align(128))]
struct Row<const N: usize>([AtomicU64; N]);

thread_local! {
    /// That of this thread.
    static ROW: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % ROWS
    };
}

impl<const N: usize> ShardedCounters<N> {
    /// Adds `more` to the number at `place`.
    pub fn add(&self, place: usize, more: u64) {
        // Not there any more: the thread ends, and something of it is dropped.
        let row = ROW.try_with(|row| *row).unwrap_or_default();
        self.0[row].0[place].fetch_add(more, Ordering::Relaxed);
    }

    /// The number at `place`.
    pub fn value(&self, place: usize) -> u64 {
        self.0.iter().map(|row| row.0[place].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    /// All of them.
    pub fn values(&self) -> [u64; N] {
        array::from_fn(|place| self.value(place))
    }
}

impl<const N: usize> Default for ShardedCounters<N> {
    fn default() -> Self {
        Self(array::from_fn(|_| Row(array::from_fn(|_| AtomicU64::new(0)))))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_all_threads_add_is_there() {
        let numbers = ShardedCounters::<3>::default();
        thread::scope(|scope| {
            for thread in 0..3 * ROWS as u64 {
                let numbers = &numbers;
                scope.spawn(move || (0..100).for_each(|_| numbers.add(1, thread)));
            }
        });
        numbers.add(2, u64::MAX);
        numbers.add(2, 2);
        assert_eq!(numbers.values(), [0, 100 * (0..3 * ROWS as u64).sum::<u64>(), 1]);
        assert_eq!(numbers.value(2), 1);
    }
}
