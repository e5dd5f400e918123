//! Whose turn it is while a request is under way. An origin is given its time only from where it has
//! all that there is: the time that a client takes for its upload is the client's.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::clock;

#[derive(Debug)]
pub struct Turn(Mutex<Option<Instant>>);

impl Default for Turn {
    fn default() -> Self {
        Self(Mutex::new(Some(clock::monotonic())))
    }
}

impl Turn {
    /// From now on the origin is waited for.
    pub fn is_origins(&self) {
        self.set(Some(clock::monotonic()));
    }

    /// The client is waited for: it has bounds of its own.
    pub fn is_clients(&self) {
        self.set(None);
    }

    /// Returns when it has been the origin's turn for `limit` without a break.
    pub async fn overdue(&self, limit: Duration) {
        loop {
            let waited = self.since().map_or(Duration::ZERO, |since| clock::monotonic() - since);
            match limit.checked_sub(waited) {
                None | Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
            }
        }
    }

    fn set(&self, since: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
