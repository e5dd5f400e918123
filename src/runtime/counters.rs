//! A fixed number of counters that only grow.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

// Durations counted in fixed buckets, as a Prometheus histogram. Recording takes a few comparisons
// and two atomic additions, without a lock; buckets are searched from the shortest, the usual
// case.

/// The upper bounds of the buckets in milliseconds: from a response of the same machine to the
/// longest default timeout. Longer durations go to a bucket without a bound.
const ENDS_MS: [u64; 15] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000];

/// The index behind the last bucket.
const NANOS: usize = ENDS_MS.len() + 1;

/// Shared by all threads that record.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The buckets, followed by the total in nanoseconds.
    counters: Counters<{ NANOS + 1 }>,
}

/// A snapshot of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistogramCounts {
    /// How many durations exceeded the previous bound, but not this one.
    buckets: [u64; ENDS_MS.len() + 1],
    nanos: u64,
}

impl Histogram {
    /// Records a duration.
    pub fn note(&self, length: Duration) {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let bucket =
            ENDS_MS.iter().position(|end| nanos <= end * 1_000_000).unwrap_or(ENDS_MS.len());
        self.counters.add(bucket, 1);
        self.counters.add(NANOS, nanos);
    }

    /// The current counters.
    pub fn counts(&self) -> HistogramCounts {
        HistogramCounts {
            buckets: std::array::from_fn(|place| self.counters.value(place)),
            nanos: self.counters.value(NANOS),
        }
    }
}

impl HistogramCounts {
    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their total in seconds.
    pub fn sum(&self) -> f64 {
        self.nanos as f64 / 1e9
    }

    /// The upper bound of each bucket in seconds, the last of which is infinite, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let ends = ENDS_MS.iter().map(|end| *end as f64 / 1e3).chain([f64::INFINITY]);
        ends.zip(self.buckets)
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

    #[test]
    fn every_length_is_in_the_bucket_that_ends_at_it_or_next_after_it() {
        let latency = Histogram::default();
        for micros in [0, 999, 1000, 1001, 2000, 60_000_000, 60_000_001, 3_600_000_000] {
            latency.note(Duration::from_micros(micros));
        }
        let counts = latency.counts();
        let filled: Vec<_> = counts.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.001, 3), (0.002, 2), (60.0, 1), (f64::INFINITY, 2)]);
        assert_eq!((counts.count(), counts.sum()), (8, 3_720.005_001));
    }

    #[test]
    fn the_buckets_follow_each_other() {
        assert!(ENDS_MS.is_sorted_by(|end, next| end < next));
    }
}
