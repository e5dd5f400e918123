//! Whose turn it is while a request is under way. An origin is given its time only from where it has
//! all that there is: the time that a client takes for its upload is the client's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use crate::clock;

/// Since when it has been the origin's turn; `None` while it is the client's.
#[derive(Debug, Default)]
pub struct Turn(Mutex<Option<Instant>>);

impl Turn {
    /// From now on the origin is waited for.
    pub fn is_origins(&self) {
        *self.since() = Some(clock::monotonic());
    }

    /// The client is waited for: it has bounds of its own.
    pub fn is_clients(&self) {
        *self.since() = None;
    }

    /// Since when the origin is waited for, if it is.
    pub fn asked_at(&self) -> Option<Instant> {
        *self.since()
    }

    /// Returns when it has been the origin's turn for `limit` without a break.
    pub async fn overdue(&self, limit: Duration) {
        let mut end = self.end(limit);
        loop {
            sleep_until(end.into()).await;
            match self.end(limit) {
                later if later > end => end = later,
                _ => return,
            }
        }
    }

    /// When it will have been the origin's turn for `limit`, if it stays so.
    fn end(&self, limit: Duration) -> Instant {
        self.since().unwrap_or_else(clock::monotonic) + limit
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
