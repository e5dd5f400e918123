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

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use bytes::{Buf, BytesMut};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clients::{Client, ClientPermit};
use crate::egress::ReadAllowance;
use crate::proxy::FIRST_REQUEST_GRACE;
use crate::proxy::destination::Scope;
use crate::proxy::rejection::Rejection;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Bytes of responses that a client has to take before it counts as one that reads.
const DELIVERED_BYTES_MIN: usize = 256 << 10;

/// How long the reset of a client that has left may take: a round trip to it.
const LEFT_RESET: Duration = Duration::from_millis(100);

/// An interim response that every client has to ignore (RFC 9110 §15.2.1).
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

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
    /// One that has ended its side has taken what it was sent since: it listens on.
    listens_on: AtomicBool,
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
        let is_half_closed = self.is_half_closed.load(Ordering::Acquire);
        if !is_half_closed || self.listens_on.load(Ordering::Acquire) {
            return;
        }
        // It may want the response still (RFC 9112 §9.6). The system of one that has left answers
        // what it is sent with a reset, and the next write fails.
        for _ in 0..2 {
            self.interim.push(CONTINUE);
            sleep(LEFT_RESET).await;
        }
        // Once is enough: this takes longer than a slot lasts, and another slot would be missed again.
        self.listens_on.store(true, Ordering::Release);
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

/// A connection of a client: its own to the proxy, or what runs inside a CONNECT on it.
#[derive(Clone, Debug)]
pub struct ConnectionContext {
    /// The client at the other end. On a connection to the proxy, the credentials of each request
    /// name its user; a connection inside a CONNECT is of the user who made that.
    pub client: Client,
    /// The client's port.
    pub port: u16,
    /// The permit for a connection of the user whose request came last.
    pub user_permit: Arc<Lock<Option<ClientPermit>>>,
    /// The targets that requests may have.
    pub scope: Scope,
    /// Whether the client has connected to an origin, and came to the proxy by a rule of the
    /// network: it has no credentials for a proxy.
    pub is_transparent: bool,
    /// Shared with the connection's I/O and the bodies of its responses.
    pub state: Arc<ConnectionState>,
    /// Triggered when the request under way is to be the last.
    pub shutdown: CancellationToken,
}

impl ConnectionContext {
    /// A client's own connection to the proxy.
    pub fn of_client(client: SocketAddr, shutdown: CancellationToken) -> Self {
        Self {
            client: Client::at(client.ip().to_canonical()),
            port: client.port(),
            user_permit: Arc::default(),
            scope: Scope::AnyOrigin,
            is_transparent: false,
            state: Arc::default(),
            shutdown,
        }
    }

    /// The connection that follows a CONNECT of `client`. Its state is a new one: that of the
    /// CONNECT owns what follows, and the two would keep each other alive.
    pub fn after_connect(&self, client: &Client) -> Self {
        Self { client: client.clone(), state: Arc::default(), ..self.clone() }
    }

    /// The connection of a client that has not been set up for a proxy.
    pub fn of_transparent_client(client: SocketAddr, shutdown: CancellationToken) -> Self {
        Self { is_transparent: true, ..Self::of_client(client, shutdown) }
    }

    /// The same connection, for requests of `scope` only.
    pub fn scoped(&self, scope: Scope) -> Self {
        Self { scope, ..self.clone() }
    }

    /// The same connection, for requests to `origin` only.
    pub fn within(&self, origin: Origin) -> Self {
        self.scoped(Scope::Origin(origin))
    }
}

/// The interim responses of one connection, as bytes. Most connections have none, for which no lock
/// is taken.
#[derive(Debug, Default)]
pub struct InterimQueue {
    bytes: Lock<BytesMut>,
    /// Whether `bytes` has any. Written only with the lock held, and read without it.
    has_bytes: AtomicBool,
}

impl InterimQueue {
    /// Appends `head`, the head of an interim response.
    pub fn push(&self, head: &[u8]) {
        let mut bytes = self.bytes.lock();
        bytes.extend_from_slice(head);
        self.has_bytes.store(true, Ordering::Release);
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        !self.has_bytes.load(Ordering::Acquire)
    }

    /// Writes with `write`, once, and removes what was written.
    pub fn poll_write(
        &self,
        write: impl FnOnce(&[u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = self.bytes.lock();
        let written = ready!(write(&bytes))?;
        bytes.advance(written);
        self.has_bytes.store(!bytes.is_empty(), Ordering::Release);
        Poll::Ready(Ok(()))
    }

    /// Drops what has not been written.
    pub fn clear(&self) {
        let mut bytes = self.bytes.lock();
        bytes.clear();
        self.has_bytes.store(false, Ordering::Release);
    }
}

/// The form of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetForm {
    /// As hyper's request has it.
    Plain,
    /// The target has neither path nor query.
    Pathless,
    /// Path and query as they came: they had to be percent-encoded.
    Encoded(Box<str>),
}

/// The form of the target of the request that comes next on a connection. Most are plain, for which
/// no lock is taken.
#[derive(Debug, Default)]
pub struct NextTargetForm {
    /// [`PLAIN`], [`PATHLESS`] or [`ENCODED`].
    variant: AtomicU8,
    /// Path and query of an encoded one.
    encoded: Lock<Option<Box<str>>>,
}

const PLAIN: u8 = 0;
const PATHLESS: u8 = 1;
const ENCODED: u8 = 2;

impl NextTargetForm {
    /// Notes the form of the target of the request that comes next.
    pub fn set(&self, form: TargetForm) {
        let variant = match form {
            TargetForm::Plain => PLAIN,
            TargetForm::Pathless => PATHLESS,
            TargetForm::Encoded(target) => {
                *self.encoded.lock() = Some(target);
                ENCODED
            }
        };
        self.variant.store(variant, Ordering::Release);
    }

    /// Takes the form of the target of the request that has come; plain from then on.
    pub fn take(&self) -> TargetForm {
        let variant = self.variant.load(Ordering::Acquire);
        if variant == PLAIN {
            return TargetForm::Plain;
        }
        self.variant.store(PLAIN, Ordering::Release);
        match variant {
            PATHLESS => TargetForm::Pathless,
            _ => self.encoded.lock().take().map_or(TargetForm::Plain, TargetForm::Encoded),
        }
    }
}

/// How often a connection without a request is looked at.
const FIRST_REQUEST_POLL: Duration = Duration::from_millis(10);

/// Returns when the proxy shuts down, and the request under way is to be the last. A client that
/// has just connected has a first request on its way, which no other process can take: it is waited
/// for a little.
pub async fn wait_for_drain(context: &ConnectionContext) {
    context.shutdown.cancelled().await;
    let first = Box::pin(timeout(FIRST_REQUEST_GRACE, first_request(&context.state)));
    first.await.unwrap_or_default();
}

async fn first_request(state: &ConnectionState) {
    while state.requests() == 0 {
        sleep(FIRST_REQUEST_POLL).await;
    }
}

#[cfg(test)]
mod interim_queue_tests {
    use super::*;

    #[test]
    fn what_was_not_written_is_kept_until_it_is_cleared() {
        let queue = InterimQueue::default();
        assert!(queue.is_empty());
        queue.push(b"103 ");
        assert!(queue.poll_write(|_| Poll::Pending).is_pending() && !queue.is_empty());
        assert!(queue.poll_write(|_| Poll::Ready(Ok(1))).is_ready() && !queue.is_empty());
        let rest = queue.poll_write(|bytes| {
            assert_eq!(bytes, b"03 ");
            Poll::Ready(Ok(bytes.len()))
        });
        assert!(rest.is_ready() && queue.is_empty());
        queue.push(b"102 ");
        queue.clear();
        assert!(queue.is_empty());
    }
}

#[cfg(test)]
mod target_form_tests {
    use super::*;

    #[test]
    fn the_form_of_a_target_is_that_of_one_request() {
        let next = NextTargetForm::default();
        for form in [TargetForm::Encoded("/\u{e9}".into()), TargetForm::Pathless] {
            next.set(form.clone());
            assert_eq!(next.take(), form);
            assert_eq!(next.take(), TargetForm::Plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_from_idle_through_handling_and_responding() {
        let state = ConnectionState::default();
        for count in 1..3 {
            assert_eq!((state.phase(), state.requests()), (RequestPhase::Idle, count - 1));
            state.begin_request();
            assert_eq!((state.phase(), state.requests()), (RequestPhase::Handling, count));
            state.start_response();
            assert_eq!(state.phase(), RequestPhase::Responding);
            state.end_request();
        }
        assert!(state.is_idle() && !state.is_upgraded());
    }

    #[test]
    fn an_upgrade_is_final() {
        let state = ConnectionState::default();
        state.begin_request();
        state.upgrade(async {});
        state.start_response();
        assert_eq!(state.phase(), RequestPhase::Upgraded);
        state.end_request();
        assert!(state.is_idle() && state.is_upgraded());
        assert!(state.take_after_upgrade().is_some() && state.take_after_upgrade().is_none());
    }

    #[test]
    fn input_ends_or_is_refused_and_never_both() {
        let (ended, refused) = (ConnectionState::default(), ConnectionState::default());
        ended.end_input();
        refused.reject_input(Rejection::bad_request("x"));
        assert!(ended.has_ended_input() && !ended.has_refused_input());
        assert!(refused.has_refused_input() && !refused.has_ended_input());
        assert!(ended.take_rejection().is_none() && refused.take_rejection().is_some());
    }
}
