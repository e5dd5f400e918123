//! The bounds of the store.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::single_flight;
use super::single_flight::queue;

/// The bounds of the store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Entries in memory.
    pub entries_max: NonZeroUsize,
    /// Bytes of the entries in memory.
    pub bytes_max: usize,
    /// Concurrent fetches.
    pub fetches_max: usize,
    /// Fetches waiting for a permit.
    pub queue_max: usize,
    /// Requests waiting for a fetch.
    pub waiters_max: usize,
    /// How long a fetch runs undisturbed while others wait for its permit.
    pub busy_wait: Duration,
    /// How long a request waits for a fetch, including the queue. A little more than the fetch's
    /// own timeout, so that the request gets its result.
    pub wait: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            entries_max: NonZeroUsize::new(1_000_000).expect("it is not zero"),
            bytes_max: 256 * 1024 * 1024,
            fetches_max: 256,
            queue_max: 4096,
            waiters_max: 16_384,
            busy_wait: Duration::from_secs(2),
            wait: Duration::from_millis(10_500),
        }
    }
}

impl Config {
    /// The bounds of flights. They include those queued for a permit, and those that fetch, or read
    /// the disk, for a waiting request.
    pub(super) const fn flights(&self) -> single_flight::Bounds {
        single_flight::Bounds {
            max: self.queue_max.saturating_add(self.waiters_max),
            queue: queue::Bounds {
                max: self.fetches_max,
                queue_max: self.queue_max,
                busy_wait: self.busy_wait,
            },
        }
    }
}
