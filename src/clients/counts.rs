//! Counts rejected connections and requests by reason, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::RejectReason;

/// One counter for each reason.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; RejectReason::WORDS.len()]);

impl Counts {
    /// Counts an error, and returns the outcome unchanged.
    pub(super) fn note<T>(&self, outcome: Result<T, RejectReason>) -> Result<T, RejectReason> {
        outcome.inspect_err(|reject_reason| {
            self.0[reject_reason.place()].fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The counters by the reason's word, including those at zero.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RejectReason::WORDS
            .into_iter()
            .zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
