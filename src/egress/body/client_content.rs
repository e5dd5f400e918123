//! The content of a request as its client sends it: held back where the origin is to ask for it
//! first, and read no faster than the origin takes it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::io_state::IoState;
use super::timeout_body::TimeoutBody;
use crate::clients::{BodyMemory, MemoryPermit};
use crate::egress::config::{
    ORIGIN_READ_SMALL_BYTES, ORIGIN_WAITING_BYTES_MAX, ORIGIN_WAITING_SMALL_BYTES,
};
use crate::runtime::clock;
use crate::runtime::lazy_timer::LazyTimer;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;

/// Kept with the response of a body that was held back; its drop ends the body, if that was never
/// sent.
pub type ResponseGuard = oneshot::Sender<Infallible>;

/// Whether a client's content may be read in larger pieces: not until the origin has shown that it
/// takes it, and there is memory for them.
#[derive(Debug, Default)]
pub struct ReadAllowance(AtomicBool);

impl ReadAllowance {
    /// Whether larger pieces are allowed.
    pub fn is_large(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits until the origin asks for the body, or has responded without it.
type ContinueWait = Pin<Box<dyn Future<Output = Continue> + Send>>;

/// What becomes of a body that is held back.
enum Continue {
    Send,
    /// The final response has come: the body is never sent.
    Never,
}

/// The content of a request, streamed from its client.
pub struct ClientContent {
    pub body: TimeoutBody,
    /// With `Expect: 100-continue`, the client is not asked for the body before the origin asks for
    /// it.
    hold: Option<ContinueWait>,
    /// The body was not wanted: the request stays incomplete while its response is read, and ends
    /// with it.
    is_unwanted: bool,
    response_dropped: Option<oneshot::Receiver<Infallible>>,
    pub backpressure: Option<Backpressure>,
    pub charge: Option<MemoryCharge>,
    pub allowance: Option<Arc<ReadAllowance>>,
}

impl ClientContent {
    /// The content of `body`, which is sent at once.
    pub const fn new(body: TimeoutBody) -> Self {
        Self {
            body,
            hold: None,
            is_unwanted: false,
            response_dropped: None,
            backpressure: None,
            charge: None,
            allowance: None,
        }
    }

    /// Holds the body back until `go` is sent, at most for `max_wait`.
    pub fn hold_until(&mut self, go: oneshot::Receiver<()>, max_wait: Duration) {
        self.hold = Some(Box::pin(async move {
            match timeout(max_wait, go).await {
                Ok(Err(_)) => Continue::Never,
                Ok(Ok(())) | Err(_) => Continue::Send,
            }
        }));
    }

    /// For a body that is held back: what is to be kept with the response.
    pub fn response_guard(&mut self) -> Option<ResponseGuard> {
        self.hold.as_ref()?;
        let (guard, dropped) = oneshot::channel();
        self.response_dropped = Some(dropped);
        Some(guard)
    }

    /// The next frame, when the origin has asked for it and can take it.
    pub fn poll_frame(
        &mut self,
        progress: &RequestProgress,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(go) = &mut self.hold {
            self.is_unwanted = matches!(ready!(go.as_mut().poll(cx)), Continue::Never);
            self.hold = None;
        }
        if self.is_unwanted {
            if let Some(dropped) = &mut self.response_dropped {
                let _ = ready!(Pin::new(dropped).poll(cx));
            }
            let unwanted = io::Error::other("the origin answered without the body");
            return Poll::Ready(Some(Err(unwanted)));
        }
        if let Some(backpressure) = &mut self.backpressure {
            if backpressure.update() {
                progress.start_origin_timer();
            }
            if backpressure.wait_if_full() {
                return Poll::Pending;
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            progress.wait_for_client();
            return Poll::Pending;
        };
        progress.start_origin_timer();
        progress.add_bytes(self.count(&frame));
        if frame.is_none() || self.body.is_end_stream() {
            progress.note_complete();
            if let Some(backpressure) = &self.backpressure {
                backpressure.note_complete();
            }
        }
        Poll::Ready(frame)
    }

    /// Counts the bytes of a frame, and allows larger reads when there is memory for them.
    fn count(&mut self, frame: &Option<Result<Frame<Bytes>, io::Error>>) -> usize {
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        let bytes = data.map_or(0, Bytes::len);
        let was_granted = self.charge.as_mut().is_some_and(|charge| charge.add(bytes));
        if let Some(backpressure) = &mut self.backpressure {
            backpressure.add(bytes);
            if was_granted {
                backpressure.allow_more();
            }
        }
        if was_granted && let Some(allowance) = &self.allowance {
            allowance.0.store(true, Ordering::Relaxed);
        }
        bytes
    }
}

impl Drop for ClientContent {
    fn drop(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.0.store(false, Ordering::Relaxed);
        }
    }
}

/// Bytes that a body holds at most when it is read in larger pieces: what waits for the origin, and
/// three pieces.
const LARGE_CONTENT_BYTES: usize = ORIGIN_WAITING_BYTES_MAX + 3 * (64 << 10);

/// How much of one request body waits for its HTTP/1.1 connection to take it.
#[derive(Debug)]
pub struct Backpressure {
    io: Arc<IoState>,
    /// [`IoState::written`] when it was last read.
    written: usize,
    /// With so many bytes waiting, no more are asked for.
    waiting_max: usize,
    /// Bytes of the body that wait. Framing counts as written content, so they may be a few more.
    waiting: usize,
}

impl Backpressure {
    /// For a body that is sent over the connection of `io`.
    pub fn new(io: &Arc<IoState>) -> Self {
        let written = io.written.load(Ordering::Relaxed);
        io.is_uploading.store(true, Ordering::Relaxed);
        let waiting_max = ORIGIN_WAITING_SMALL_BYTES;
        Self { io: Arc::clone(io), written, waiting_max, waiting: 0 }
    }

    /// Updates the count of waiting bytes. Returns whether the connection has taken any since the
    /// last call.
    pub fn update(&mut self) -> bool {
        let written = self.io.written.load(Ordering::Relaxed);
        let taken = written.wrapping_sub(std::mem::replace(&mut self.written, written));
        self.waiting = self.waiting.saturating_sub(taken);
        taken > 0
    }

    /// Whether the body must wait. If so, it is polled again when the connection takes bytes.
    pub fn wait_if_full(&self) -> bool {
        let is_full = self.waiting >= self.waiting_max;
        if is_full {
            self.io.is_awaited.store(true, Ordering::Relaxed);
        }
        is_full
    }

    /// Counts bytes that have been handed to hyper.
    pub const fn add(&mut self, bytes: usize) {
        self.waiting += bytes;
    }

    /// Lets more bytes wait: there is memory for them.
    pub const fn allow_more(&mut self) {
        self.waiting_max = ORIGIN_WAITING_BYTES_MAX;
    }

    /// Notes that the whole body has been handed over.
    pub fn note_complete(&self) {
        self.io.is_uploading.store(false, Ordering::Relaxed);
    }

    /// Whether more bytes may wait.
    #[cfg(test)]
    pub const fn is_large(&self) -> bool {
        self.waiting_max == ORIGIN_WAITING_BYTES_MAX
    }
}

/// The memory that one body takes beyond the least.
#[derive(Debug)]
pub struct MemoryCharge {
    client: ClientKey,
    memory: Arc<BodyMemory>,
    held: Option<MemoryPermit>,
    /// Bytes that the origin has been given.
    given: usize,
    /// At so many bytes given, memory is asked for.
    asks_at: usize,
}

impl MemoryCharge {
    /// Charges `client`, from the budget `memory`.
    pub fn new(client: &ClientKey, memory: &Arc<BodyMemory>) -> Self {
        Self {
            client: client.clone(),
            memory: Arc::clone(memory),
            held: None,
            given: 0,
            asks_at: ORIGIN_READ_SMALL_BYTES,
        }
    }

    /// Counts `bytes` given to the origin and asks for memory when the origin has taken as much as
    /// the systems on either side hold for one that reads nothing, and once more after as much
    /// again. Returns whether memory was granted now.
    pub fn add(&mut self, bytes: usize) -> bool {
        self.given = self.given.saturating_add(bytes);
        if self.held.is_some() || self.given < self.asks_at {
            return false;
        }
        self.asks_at = self.given.saturating_add(ORIGIN_READ_SMALL_BYTES);
        self.held = self.memory.reserve_extra(&self.client, LARGE_CONTENT_BYTES);
        self.held.is_some()
    }
}

// The progress of a request, and which side is waited for. The origin's response timeout counts
// only from the time at which it has all that there is: the time that a client takes for its
// upload is not the origin's.

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
