//! What the store counts, and the bound on those who wait.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::Undecided;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub entries: usize,
    pub bytes: usize,
    /// Distinct files in memory, read in a dialect.
    pub parsed: usize,
    /// Fetches under way or waiting for their turn.
    pub flights: usize,
    pub waiters: usize,
    pub hits: u64,
    pub misses: u64,
    pub fetches: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub waiters: AtomicUsize,
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub fetches: AtomicU64,
}

/// One who waits; counted while it lives.
pub(super) struct Waiter<'a>(&'a AtomicUsize);

impl Counters {
    pub(super) fn enter(&self, waiters_max: usize) -> Result<Waiter<'_>, Undecided> {
        let before = self.waiters.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(&self.waiters);
        if before < waiters_max { Ok(waiter) } else { Err(Undecided::Busy) }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
