//! How many were turned away, by reason: for whoever watches the proxy.

use std::sync::atomic::{AtomicU64, Ordering};

use super::TurnedAway;

/// One number for each reason.
#[derive(Debug, Default)]
pub struct Counts([AtomicU64; TurnedAway::WORDS.len()]);

impl Counts {
    /// Counts what is an error, and passes it on.
    pub(super) fn note<T>(&self, outcome: Result<T, TurnedAway>) -> Result<T, TurnedAway> {
        outcome.inspect_err(|turned_away| {
            self.0[turned_away.place()].fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The numbers, by the words of the reasons; those that are zero, too.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        TurnedAway::WORDS.into_iter().zip(self.0.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
