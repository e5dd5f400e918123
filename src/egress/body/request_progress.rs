//! The progress of a request, and which side is waited for. The origin's response timeout counts
//! only from the time at which it has all that there is: the time that a client takes for its
//! upload is not the origin's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::runtime::clock;
use crate::runtime::lazy_timer::LazyTimer;
use crate::runtime::lock::Lock;

/// The progress of one request, from before it is sent to its response.
#[derive(Debug, Default)]
pub struct RequestProgress {
    is_complete: AtomicBool,
    client_reads: AtomicBool,
    /// Since when the origin is waited for; `None` while the client is.
    waiting_since: Lock<Option<Instant>>,
    /// Bytes of the body that have been taken.
    bytes: AtomicU64,
}

/// How often it is looked whether a client sends its upload.
const CLIENT_STALL_INTERVAL: Duration = Duration::from_secs(1);

/// A client that sends fewer bytes of its upload in that time, while it is waited for, holds its
/// request up: one that sends a byte now and then does, too.
const CLIENT_STALL_BYTES: u64 = 1024;

/// Looks whether the client of a request holds it up.
#[derive(Debug, Default)]
pub struct ClientStall {
    timer: LazyTimer,
    bytes: u64,
    is_stalled: bool,
}

impl ClientStall {
    /// Whether the client holds the request up, when that has changed.
    pub fn poll(&mut self, progress: &RequestProgress, cx: &mut Context<'_>) -> Option<bool> {
        let was_stalled = self.is_stalled;
        if progress.is_complete() {
            self.is_stalled = false;
        } else {
            while self.timer.poll(CLIENT_STALL_INTERVAL, cx).is_ready() {
                self.timer.clear();
                let bytes = progress.bytes.load(Ordering::Relaxed);
                self.is_stalled =
                    progress.waiting_since().is_none() && bytes - self.bytes < CLIENT_STALL_BYTES;
                self.bytes = bytes;
            }
        }
        (self.is_stalled != was_stalled).then_some(self.is_stalled)
    }
}

impl RequestProgress {
    /// For a request whose body has come whole, or not.
    pub fn new(is_complete: bool) -> Self {
        Self { is_complete: AtomicBool::new(is_complete), ..Self::default() }
    }

    /// Sets whether the client is known to read what it asks for.
    pub fn set_client_reads(&self, client_reads: bool) {
        self.client_reads.store(client_reads, Ordering::Relaxed);
    }

    /// Whether the client is known to read what it asks for.
    pub fn client_reads(&self) -> bool {
        self.client_reads.load(Ordering::Relaxed)
    }

    /// Counts bytes of the body that have been taken.
    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Notes that the whole body has been taken.
    pub fn note_complete(&self) {
        self.is_complete.store(true, Ordering::Release);
    }

    /// Whether the whole body has been taken.
    pub fn is_complete(&self) -> bool {
        self.is_complete.load(Ordering::Acquire)
    }

    /// Starts the origin's timeout again.
    pub fn start_origin_timer(&self) {
        *self.waiting_since.lock() = Some(clock::monotonic());
    }

    /// Stops the origin's time: the client is waited for, which has timeouts of its own.
    pub fn wait_for_client(&self) {
        *self.waiting_since.lock() = None;
    }

    /// Since when the origin is waited for; `None` while the client is.
    pub fn waiting_since(&self) -> Option<Instant> {
        *self.waiting_since.lock()
    }

    /// Ready when the origin has been waited for `limit` without a break.
    pub fn poll_overdue(
        &self,
        limit: Duration,
        timer: &mut LazyTimer,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        // While the client is waited for, the origin's time ends `limit` from now at the soonest.
        let end = self.waiting_since().unwrap_or_else(clock::monotonic) + limit;
        timer.poll_at(end, cx)
    }
}
