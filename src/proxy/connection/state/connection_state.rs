//! The state of a client's connection, shared by the request handler, the response body, the I/O
//! and the task that serves the connection.
//!
//! ```text
//!             begin_request         start_response         end_request
//!   Idle ──────────────────▶ Handling ────────────▶ Responding ────────────▶ Idle
//!                               │ upgrade
//!                               └───────────▶ Upgraded                    (final)
//!
//!   input     Open ─ end_input ─▶ Ended       Open ─ reject_input ─▶ Refused
//!   output    Ready ─ block_output ─▶ Blocked ─ unblock_output ─▶ Ready
//! ```
//!
//! On HTTP/2, where several requests are under way at once, only Idle has a meaning.

#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::interim_queue::InterimQueue;
use super::target_form::NextTargetForm;
use crate::egress::ReadAllowance;
use crate::proxy::outcome::rejection::Rejection;
use crate::runtime::lock::Lock;

/// Bytes of responses that a client has to take before it counts as one that reads.
const DELIVERED_BYTES_MIN: usize = 256 << 10;

/// How long the reset of a client that has left may take: a round trip to it.
const LEFT_RESET: Duration = Duration::from_millis(100);

/// An interim response that every client has to ignore (RFC 9110 §15.2.1).
pub(in crate::proxy::connection) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What runs on a connection that has left HTTP.
pub type AfterUpgrade = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How far the request under way has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPhase {
    /// No request is under way.
    Idle,
    /// The handler has a request, and no response yet.
    Handling,
    /// hyper has the response.
    Responding,
    /// The connection leaves HTTP: the timeouts of requests no longer apply.
    Upgraded,
}

/// The state of one connection. All methods take `&self`; none waits.
#[derive(Default)]
pub struct ConnectionState {
    /// Requests under way.
    under_way: AtomicUsize,
    /// Requests begun.
    requests: AtomicUsize,
    /// A [`RequestPhase`] but Idle, which is that no request is under way.
    phase: AtomicU8,
    /// [`OPEN`], [`ENDED`] or [`REFUSED`].
    input: AtomicU8,
    rejection: Lock<Option<Rejection>>,
    /// A request with a body has come, which may be answered before it is read.
    may_leave_unread: AtomicBool,
    /// The client has ended its side, and waits for a response all the same, or has left.
    is_half_closed: AtomicBool,
    target_form: NextTargetForm,
    interim: InterimQueue,
    is_output_blocked: AtomicBool,
    delivered: AtomicUsize,
    content_reads: Arc<ReadAllowance>,
    after_upgrade: Lock<Option<AfterUpgrade>>,
    /// What runs on streams of HTTP/2 that have left HTTP.
    streams: Lock<Option<JoinSet<()>>>,
}

const OPEN: u8 = 0;

/// The client ended its side, or the connection, between two requests.
const ENDED: u8 = 1;

/// The input is refused: nothing more is read.
const REFUSED: u8 = 2;

/// The request under way.
impl ConnectionState {
    /// Idle → Handling.
    pub fn begin_request(&self) {
        self.phase.store(RequestPhase::Handling as u8, Ordering::Release);
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.requests.fetch_add(1, Ordering::AcqRel);
    }

    /// Handling → Responding. No transition from Upgraded.
    pub fn start_response(&self) {
        if self.phase.load(Ordering::Acquire) == RequestPhase::Handling as u8 {
            self.phase.store(RequestPhase::Responding as u8, Ordering::Release);
        }
    }

    /// Responding → Idle, when no other request is under way.
    pub fn end_request(&self) {
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    /// Handling → Upgraded, after a 101 or a CONNECT. `after` runs in the connection's task, and
    /// counts and ends with the connection.
    pub fn upgrade(&self, after: impl Future<Output = ()> + Send + 'static) {
        *self.after_upgrade.lock() = Some(Box::pin(after));
        self.phase.store(RequestPhase::Upgraded as u8, Ordering::Release);
    }

    /// Runs `after` on a stream of HTTP/2 that leaves HTTP, beside the others. It ends with the
    /// connection.
    pub fn upgrade_stream(self: &Arc<Self>, after: impl Future<Output = ()> + Send + 'static) {
        let state = Arc::clone(self);
        state.under_way.fetch_add(1, Ordering::AcqRel);
        let mut streams = self.streams.lock();
        let streams = streams.get_or_insert_default();
        while streams.try_join_next().is_some() {}
        streams.spawn(async move {
            after.await;
            state.end_request();
        });
    }

    /// Ends what still runs on streams of HTTP/2.
    pub async fn end_streams(&self) {
        let streams = self.streams.lock().take();
        if let Some(mut streams) = streams {
            streams.shutdown().await;
        }
    }

    /// The phase of the request that began last.
    pub fn phase(&self) -> RequestPhase {
        match self.phase.load(Ordering::Acquire) {
            phase if phase == RequestPhase::Upgraded as u8 => RequestPhase::Upgraded,
            _ if self.is_idle() => RequestPhase::Idle,
            phase if phase == RequestPhase::Responding as u8 => RequestPhase::Responding,
            _ => RequestPhase::Handling,
        }
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Whether the connection leaves HTTP.
    pub fn is_upgraded(&self) -> bool {
        self.phase.load(Ordering::Acquire) == RequestPhase::Upgraded as u8
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Takes what [`Self::upgrade`] was given.
    pub fn take_after_upgrade(&self) -> Option<AfterUpgrade> {
        self.after_upgrade.lock().take()
    }
}

/// What comes from the client.
impl ConnectionState {
    /// Open → Ended: the client ended its side, or the connection, between two requests.
    pub fn end_input(&self) {
        let _ = self.input.compare_exchange(OPEN, ENDED, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Open → Refused: nothing more is read, and `rejection` is the last response.
    pub fn reject_input(&self, rejection: Rejection) {
        *self.rejection.lock() = Some(rejection);
        self.input.store(REFUSED, Ordering::Release);
    }

    /// Whether the client ended the input between two requests.
    pub fn has_ended_input(&self) -> bool {
        self.input.load(Ordering::Acquire) == ENDED
    }

    /// Whether the input is refused.
    pub fn has_refused_input(&self) -> bool {
        self.input.load(Ordering::Acquire) == REFUSED
    }

    /// Takes the reason that the input is refused for.
    pub fn take_rejection(&self) -> Option<Rejection> {
        self.rejection.lock().take()
    }

    /// A request with a body has come, which may be answered before it is read.
    pub fn note_unread_content(&self) {
        self.may_leave_unread.store(true, Ordering::Release);
    }

    /// Whether such a request has come.
    pub fn has_unread_content(&self) -> bool {
        self.may_leave_unread.load(Ordering::Acquire)
    }

    /// The client has ended its side while it waits for a response, and knows interim responses.
    pub fn note_half_closed(&self) {
        self.is_half_closed.store(true, Ordering::Release);
    }

    /// Looks whether the client is still there. If it has left, the connection or the stream ends
    /// meanwhile, and its request with it: this does not return then.
    pub async fn look_at_client(&self) {
        // The first time what has come is read, the second time it is acted on.
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        if !self.is_half_closed.load(Ordering::Acquire) {
            return;
        }
        // It may want the response still (RFC 9112 §9.6). The system of one that has left answers
        // what it is sent with a reset, and the next write fails.
        for _ in 0..2 {
            self.interim.push(CONTINUE);
            sleep(LEFT_RESET).await;
        }
    }

    /// How much of a request's content may be read at once.
    pub const fn content_reads(&self) -> &Arc<ReadAllowance> {
        &self.content_reads
    }

    /// The form of the target of the request that comes next.
    pub const fn target_form(&self) -> &NextTargetForm {
        &self.target_form
    }
}

/// What goes to the client.
impl ConnectionState {
    /// Interim responses, sent before anything else (RFC 9110 §15.2).
    pub const fn interim(&self) -> &InterimQueue {
        &self.interim
    }

    /// Ready → Blocked: the client did not take at once all that it was sent.
    pub fn block_output(&self) {
        self.is_output_blocked.store(true, Ordering::Release);
    }

    /// Blocked → Ready: the client has taken everything. True if it was blocked: the caller then
    /// wakes what waits for it.
    pub fn unblock_output(&self) -> bool {
        self.is_output_blocked.swap(false, Ordering::AcqRel)
    }

    /// Whether the client has yet to take what it was sent.
    pub fn is_output_blocked(&self) -> bool {
        self.is_output_blocked.load(Ordering::Acquire)
    }

    /// Counts bytes of responses that the client has taken.
    pub fn note_delivered(&self, bytes: usize) {
        let delivered = self.delivered.load(Ordering::Relaxed);
        self.delivered.store(delivered.saturating_add(bytes), Ordering::Relaxed);
    }

    /// Whether the client has taken enough to count as one that reads.
    pub fn is_known_to_read(&self) -> bool {
        self.delivered.load(Ordering::Relaxed) >= DELIVERED_BYTES_MIN
    }
}

impl fmt::Debug for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionState").field("phase", &self.phase()).finish_non_exhaustive()
    }
}
