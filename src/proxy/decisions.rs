//! How many decisions the gate has made, those that leave no record included: without them nobody
//! could tell from the log alone whether one request in ten was denied or all of them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::decision::Verdict;

/// Shared by all workers. Each counter is exact; together they are of about one moment.
#[derive(Debug, Default)]
pub struct Decisions {
    allowed: AtomicU64,
    by_host: AtomicU64,
    by_path: AtomicU64,
    denied: AtomicU64,
}

/// The numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    pub allowed: u64,
    /// Of a host as a whole: no path was seen.
    pub by_host: u64,
    pub by_path: u64,
    pub denied: u64,
}

impl Decisions {
    pub(super) fn count(&self, verdict: Verdict, path_seen: bool) {
        let verdict = match verdict {
            Verdict::Allow => &self.allowed,
            Verdict::Disallow => &self.denied,
        };
        verdict.fetch_add(1, Ordering::Relaxed);
        let basis = if path_seen { &self.by_path } else { &self.by_host };
        basis.fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> DecisionCounts {
        DecisionCounts {
            allowed: self.allowed.load(Ordering::Relaxed),
            by_host: self.by_host.load(Ordering::Relaxed),
            by_path: self.by_path.load(Ordering::Relaxed),
            denied: self.denied.load(Ordering::Relaxed),
        }
    }
}
