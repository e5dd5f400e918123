//! Counts rejected connections and requests by reason, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::TurnedAway;

/// One counter for each reason.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; TurnedAway::WORDS.len()]);

impl Counts {
    /// Counts an error, and returns the outcome unchanged.
    pub(super) fn note<T>(&self, outcome: Result<T, TurnedAway>) -> Result<T, TurnedAway> {
        outcome.inspect_err(|turned_away| {
            self.0[turned_away.place()].fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The counters by the reason's word, including those at zero.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        TurnedAway::WORDS.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
