//! How far a request is that is under way, and whose turn it is. An origin is given its time only from
//! where it has all that there is: the time that a client takes for its upload is the client's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::runtime::clock;
use crate::runtime::lazy_timer::LazyTimer;

/// Of one request, from before it is sent to its answer.
#[derive(Debug, Default)]
pub struct Progress {
    complete: AtomicBool,
    /// The client is known to read what it asks for.
    is_read: AtomicBool,
    /// Since when it has been the origin's turn; `None` while it is the client's.
    origins_since: Mutex<Option<Instant>>,
}

impl Progress {
    /// With a body of which nothing is to come, or something.
    pub fn new(complete: bool) -> Self {
        Self { complete: AtomicBool::new(complete), ..Self::default() }
    }

    /// Says whether the client is known to read what it asks for.
    pub fn set_read(&self, is_read: bool) {
        self.is_read.store(is_read, Ordering::Relaxed);
    }

    /// Whether it is.
    pub fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Relaxed)
    }

    /// The whole body has been taken.
    pub fn completed(&self) {
        self.complete.store(true, Ordering::Release);
    }

    /// Whether it has.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

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

    /// Ready when it has been the origin's turn for `limit` without a break.
    pub fn poll_overdue(
        &self,
        limit: Duration,
        deadline: &mut LazyTimer,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        // While it is the client's, it will have been the origin's after as long at the soonest.
        let end = self.since().unwrap_or_else(clock::monotonic) + limit;
        deadline.poll_at(end, cx)
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.origins_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
