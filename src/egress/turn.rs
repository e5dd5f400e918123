//! Whose turn it is while a request is under way. An origin is given its time only from where it has
//! all that there is: the time that a client takes for its upload is the client's.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::clock;

/// Nobody's at first: the exchange that begins says whose.
#[derive(Debug, Default)]
pub struct Turn(Mutex<Option<Instant>>);

impl Turn {
    /// From now on the origin is waited for.
    pub fn is_origins(&self) {
        self.set(Some(clock::monotonic()));
    }

    /// The client is waited for: it has bounds of its own.
    pub fn is_clients(&self) {
        self.set(None);
    }

    /// Returns when it has been the origin's turn for `limit` without a break, at the soonest `limit`
    /// from now: whoever asks has only just begun.
    pub async fn overdue(&self, limit: Duration) {
        let mut left = Some(limit);
        while let Some(wait) = left.filter(|left| !left.is_zero()) {
            sleep(wait).await;
            left = limit.checked_sub(self.waited().unwrap_or_default());
        }
    }

    /// For how long it has been the origin's turn, if it is.
    pub fn waited(&self) -> Option<Duration> {
        self.since().map(|since| clock::monotonic() - since)
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
