//! HTTP/1.1 to origins: one exchange at a time on each connection, without a task of its own.
//!
//! hyper's connection future does work only while it is polled. The exchange polls it in its own
//! task ([`Http1Connection::poll_driven`]), so no other task has to be woken for a request:
//!
//! ```text
//! exchange's task ─ poll_driven ─┬─ response future
//!        ▲                       └─ hyper connection ─ ReadLimited ─ TLS or TCP stream
//!        └── wake ── WakeRelay ──────────┘
//! ```
//!
//! `WakeRelay` is the waker that the connection is polled with. It passes wake-ups on
//! to the task that uses the connection, and drops those that the task causes itself.
//! `ReadLimited` limits the size of reads. A head that hyper does not take is read once
//! more by [`HeadReader`](response_head), which makes one of it that hyper takes, or says what is
//! wrong with it.

mod read_limit;
mod response_head;

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use super::body::{IoState, RequestBody};
use super::config::{
    ConfigSnapshot, HYPER_HEADERS_MAX, ORIGIN_READ_LARGE_BYTES, ORIGIN_READ_LARGEST_BYTES,
    Revalidation,
};
use super::error::Error;
use super::hyper_error::setup_error;
use super::parent::Forwarder;
use super::tls::Versions;
use crate::clients::{BodyMemory, MemoryPermit};
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::Origin;
pub use read_limit::{BUFFER_PERMITS_MAX, LargeRead};
use read_limit::{BufferPermit, ReadLimited};
pub use response_head::HeadFault;
use response_head::{HeadOf, HeadReader};

/// Pieces of a response held at most: one being sent, one that follows, and one being read.
const PIECES_HELD: usize = 3;

/// A connection that one exchange at a time uses.
pub struct Http1Connection {
    sender: http1::SendRequest<RequestBody>,
    /// `None` when the connection has ended, or when the driver has a task of its own.
    driver: Option<Box<dyn Driver>>,
    /// Whether the driver has no more messages to read or write.
    has_ended: bool,
    /// Whether a request was sent to which no response has come. Until then the stream stays open,
    /// so that what hyper does not take can be read once more.
    awaits_response: bool,
    /// The waker that the driver is polled with.
    relay: Arc<WakeRelay>,
    revalidation: Revalidation,
    io: Arc<IoState>,
    /// Permits the largest reads. hyper never shrinks its buffer, so the connection is closed
    /// after the exchange.
    permit: Option<BufferPermit>,
    /// Memory for larger reads and, while the connection idles, for the buffer that hyper keeps.
    memory: Option<MemoryPermit>,
    /// The parent that forwards what is sent, if it leads to one that does.
    pub forwarder: Option<Forwarder>,
    /// How long the origin keeps it open while it idles, as far as it says so.
    pub idle_max: Option<Duration>,
}

impl Http1Connection {
    /// Sets up HTTP/1.1 on a stream.
    pub async fn open(
        origin: &Origin,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        revalidation: Revalidation,
    ) -> Result<Box<Self>, Error> {
        let config = revalidation.config();
        let io = Arc::<IoState>::default();
        io.head_bytes_max.store(config.max_header_bytes, Ordering::Relaxed);
        let (sender, connection) = builder(config.max_header_bytes)
            .handshake(TokioIo::new(ReadLimited::new(stream, Arc::clone(&io))))
            .await
            .map_err(|error| setup_error(origin, &error))?;
        Ok(Box::new(Self {
            sender,
            driver: Some(Box::new(connection)),
            has_ended: false,
            awaits_response: false,
            relay: WakeRelay::new(),
            revalidation,
            io,
            permit: None,
            memory: None,
            forwarder: None,
            idle_max: None,
        }))
    }

    /// The address of the origin.
    pub fn peer(&self) -> Option<IpAddr> {
        self.revalidation.peer()
    }

    /// The parent that it goes by.
    pub fn via(&self, origin: &Origin) -> Option<String> {
        self.revalidation.via(origin)
    }

    /// Checks whether it may be used under `current`.
    pub fn revalidate(&mut self, origin: &Origin, current: &Arc<ConfigSnapshot>) -> bool {
        self.revalidation.revalidate(origin, current)
    }

    /// Has a response of `remaining` bytes read in the largest pieces, if there is a permit.
    pub fn begin_large_read(
        &mut self,
        permits: &Arc<Semaphore>,
        remaining: u64,
    ) -> Option<LargeRead> {
        self.permit = Some(BufferPermit::take(permits, remaining)?);
        LargeRead::begin(&self.io, remaining)
    }

    /// Allows larger reads for the rest of the response, the largest if `is_large`, when there is
    /// memory for them; whether there is.
    pub fn allow_larger_reads(
        &mut self,
        memory: &Arc<BodyMemory>,
        client: &ClientKey,
        is_large: bool,
    ) -> bool {
        let piece = if is_large { ORIGIN_READ_LARGEST_BYTES } else { ORIGIN_READ_LARGE_BYTES };
        let held = memory.reserve_extra(client, PIECES_HELD * piece);
        let is_allowed = held.is_some();
        if is_allowed {
            self.memory = held;
            self.io.allows_large_reads.store(true, Ordering::Relaxed);
        }
        is_allowed
    }

    /// Whether hyper has enlarged its buffer for a large response. It never shrinks it.
    pub fn has_large_buffer(&self) -> bool {
        self.io.has_large_buffer.load(Ordering::Relaxed)
    }

    /// Whether it is to be closed after the exchange: its buffer has room for the largest reads, or
    /// where its messages begin and end may not be trusted.
    pub fn closes_when_idle(&self) -> bool {
        self.permit.is_some() || self.io.has_mended_head.load(Ordering::Relaxed)
    }

    /// Whether it may idle for `time`, where `limit` is the setting.
    pub fn may_idle(&self, time: Duration, limit: Duration) -> bool {
        time < self.idle_max.map_or(limit, |max| max.min(limit))
    }

    /// Whether it can take another exchange: both messages of the last one have been read and
    /// written whole, and nothing has come behind them.
    pub fn is_idle(&self) -> bool {
        self.sender.is_ready()
    }

    /// Drives the connection once, and checks whether it can take an exchange now, also a first
    /// one.
    pub fn is_open(&mut self) -> bool {
        self.relay.mute();
        self.drive(Waker::noop());
        self.is_idle()
    }

    /// Prepares for idling: no task is woken for what happens to the connection until it is used
    /// again.
    pub fn park(&mut self) {
        if let Some(memory) = &mut self.memory {
            let has_large_buffer = self.io.has_large_buffer.load(Ordering::Relaxed);
            memory.shrink_to(if has_large_buffer { 2 * ORIGIN_READ_LARGE_BYTES } else { 0 });
        }
        self.relay.register(Waker::noop());
        self.relay.mute();
    }

    /// Checks whether it is still idle: drives it once if anything has happened to it.
    pub fn check_idle(&mut self) -> bool {
        if self.relay.mute() {
            self.drive(Waker::noop());
        }
        self.is_idle()
    }

    /// Sends a request. The response future is to be polled by [`Self::poll_driven`]; the error
    /// carries the request when nothing of it was sent.
    pub fn send(
        &mut self,
        mut request: Request<RequestBody>,
        versions: Versions,
        is_for_robots_txt: bool,
    ) -> impl Future<Output = HyperResponse> + use<> {
        request.body_mut().limit_backlog(&self.io);
        self.io.allows_large_reads.store(false, Ordering::Relaxed);
        self.io.reads_robots_txt.store(is_for_robots_txt, Ordering::Relaxed);
        // It asks for an upgrade, or HTTP/2 was refused.
        if versions == Versions::Http1 {
            self.driver = self.driver.take().map(Driver::with_upgrades);
        }
        self.awaits_response = true;
        self.relay.mute();
        // Under tokio's cooperative budget it might wait for more budget, a wake-up that does not
        // come through the relay.
        let response = unconstrained(self.sender.try_send_request(request));
        self.relay.unmute();
        response
    }

    /// Reads the head of a response once more that hyper did not take, to a request of `method`
    /// that was sent whole. hyper is given a connection of its own for the head that it is made
    /// into, and a request whose bytes go nowhere. `None` if hyper has consumed some of it.
    ///
    /// # Errors
    ///
    /// What is wrong with the head ([`HeadFault`](HeadFault)), or with the stream.
    pub async fn read_again(
        &mut self,
        method: Method,
    ) -> Option<io::Result<impl Future<Output = HyperResponse> + use<>>> {
        let (mut stream, unread) = self.driver.take()?.into_unread()?;
        let bytes_max = self.revalidation.config().max_header_bytes;
        let mut head = HeadReader::new(HeadOf::Page, bytes_max, &unread);
        let headers = match poll_fn(|cx| head.poll_head(&mut *stream, cx)).await {
            Ok(headers) => headers,
            Err(error) => return Some(Err(error)),
        };
        let stream = ReadLimited::replaying(stream, Arc::clone(&self.io), head);
        let mut builder = builder(bytes_max);
        if headers > HYPER_HEADERS_MAX {
            builder.max_headers(headers);
        }
        let (sender, connection) = match builder.handshake(TokioIo::new(stream)).await {
            Ok(opened) => opened,
            Err(error) => return Some(Err(io::Error::other(error))),
        };
        self.sender = sender;
        self.driver = Some(Box::new(connection));
        self.has_ended = false;
        let mut request = Request::new(RequestBody::empty());
        *request.method_mut() = method;
        Some(Ok(self.send(request, Versions::Any, false)))
    }

    /// Notes that a response has come.
    pub fn note_response(&mut self) {
        self.awaits_response = false;
        if self.has_ended {
            self.drive(Waker::noop());
        }
    }

    /// Polls `poll`, and drives the connection that it waits for.
    pub fn poll_driven<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.driver.is_none() {
            return poll(cx);
        }
        // `poll` runs before and after the driver, so wake-ups between the two can be dropped.
        let mut no_waker = Context::from_waker(Waker::noop());
        self.relay.mute();
        let before = poll(&mut no_waker);
        self.relay.unmute();
        if before.is_ready() {
            return before;
        }
        self.drive(cx.waker());
        self.relay.mute();
        let after = poll(&mut no_waker);
        if self.relay.unmute() && after.is_pending() {
            cx.waker().wake_by_ref();
        }
        after
    }

    fn drive(&mut self, task: &Waker) {
        let Some(driver) = &mut self.driver else { return };
        self.relay.register(task);
        let waker = Waker::from(Arc::clone(&self.relay));
        let mut cx = Context::from_waker(&waker);
        self.has_ended = self.has_ended || driver.poll_messages(&mut cx).is_ready();
        let closes = self.has_ended && !self.awaits_response;
        if closes && driver.poll_shutdown(&mut cx).is_ready() {
            self.driver = None;
        }
    }

    /// Spawns a task for the driver: it has work that the response does not wait for.
    pub fn detach(&mut self) {
        if let Some(driver) = self.driver.take() {
            tokio::spawn(run_driver(driver));
        }
    }
}

/// The driver ends once there is no sender: what is left of a whole upload is sent, and TLS is
/// closed properly (RFC 9112 §9.8). It may take as long as an origin may be silent. An upload that
/// never becomes whole, because its client has left or timed out, is given up at once.
impl Drop for Http1Connection {
    fn drop(&mut self) {
        if let Some(driver) = self.driver.take()
            && !self.io.is_uploading.load(Ordering::Relaxed)
            && let Ok(runtime) = Handle::try_current()
        {
            let limit = self.revalidation.config().body_idle_timeout;
            let held = (self.permit.take(), self.memory.take());
            runtime.spawn(async move {
                let _ = timeout(limit, run_driver(driver)).await;
                drop(held);
            });
        }
    }
}

/// Sets every limit, and what of a head is tolerated: a blank before the colon is removed (RFC 9112
/// §5.1).
fn builder(max_header_bytes: usize) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .allow_spaces_after_header_name_in_responses(true)
        .preserve_header_case(true)
        // For header names without a recorded case: those in title case, and those from HTTP/2.
        .title_case_headers(true)
        .max_header_size(max_header_bytes)
        .max_buf_size(max_header_bytes.max(ORIGIN_READ_LARGEST_BYTES));
    builder
}

impl fmt::Debug for Http1Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http1Connection")
            .field("revalidation", &self.revalidation)
            .finish_non_exhaustive()
    }
}

/// The response to a request, as hyper reads it; the error carries the request when nothing of it
/// was sent.
pub type HyperResponse = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// What a connection is made over.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// hyper's connection. It ends with the connection; its errors reach the exchange in use.
pub trait Driver: Send {
    /// Reads and writes messages, until there are no more.
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Closes the stream behind the last message.
    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// The same, for a request that may change the protocol of the connection.
    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver>;

    /// The stream, and what has come of a response that hyper does not take, if hyper has consumed
    /// nothing of it.
    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)>;
}

impl<S: Stream + 'static> Driver for Connection<TokioIo<ReadLimited<S>>, RequestBody> {
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_without_shutdown(cx).map(drop)
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self).poll(cx).map(drop)
    }

    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver> {
        Box::new(Upgradeable(Some((*self).with_upgrades())))
    }

    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)> {
        let parts = self.into_parts();
        let stream = parts.io.into_inner().into_stream(parts.read_buf.len())?;
        Some((Box::new(stream), parts.read_buf))
    }
}

/// A connection that hyper hands over with its response of 101; `None` when it has ended.
struct Upgradeable<F>(Option<F>);

impl<F: Future<Output = hyper::Result<()>> + Unpin + Send + 'static> Driver for Upgradeable<F> {
    fn poll_messages(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(connection) = &mut self.0 else { return Poll::Ready(()) };
        let poll = Pin::new(connection).poll(cx).map(drop);
        if poll.is_ready() {
            self.0 = None;
        }
        poll
    }

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    fn with_upgrades(self: Box<Self>) -> Box<dyn Driver> {
        self
    }

    fn into_unread(self: Box<Self>) -> Option<(Box<dyn Stream>, Bytes)> {
        None
    }
}

/// Drives a connection to its end.
pub async fn run_driver(mut driver: Box<dyn Driver>) {
    poll_fn(|cx| driver.poll_messages(cx)).await;
    poll_fn(|cx| driver.poll_shutdown(cx)).await;
}

// Waker for a hyper connection that the exchange polls in its own task. It passes wake-ups on to
// that task, except those that the task causes itself by what it does to the connection.

/// Wakes the registered task, unless it is muted.
#[derive(Debug)]
pub struct WakeRelay {
    state: AtomicU8,
    registered: Lock<Waker>,
}

const ACTIVE: u8 = 0;
const MUTED: u8 = 1;
/// Muted, and a wake-up was dropped.
const MISSED: u8 = 2;

impl WakeRelay {
    /// A relay without a registered task.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(ACTIVE),
            registered: Lock::new(Waker::noop().clone()),
        })
    }

    /// Registers the task to wake, in place of the one before.
    pub fn register(&self, task: &Waker) {
        self.registered.lock().clone_from(task);
    }

    /// Drops wake-ups from now on. Returns whether it was muted before and has dropped one.
    pub fn mute(&self) -> bool {
        self.state.swap(MUTED, Ordering::AcqRel) == MISSED
    }

    /// Passes wake-ups on again. Returns whether one was dropped meanwhile.
    pub fn unmute(&self) -> bool {
        self.state.swap(ACTIVE, Ordering::AcqRel) == MISSED
    }
}

impl Wake for WakeRelay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let state = self.state.compare_exchange(MUTED, MISSED, Ordering::AcqRel, Ordering::Acquire);
        if state == Err(ACTIVE) {
            self.registered.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn wakes_the_last_registered_task_and_reports_what_it_dropped_while_muted() {
        let relay = WakeRelay::new();
        let first = Arc::<Count>::default();
        let second = Arc::<Count>::default();
        let waker = Waker::from(Arc::clone(&relay));
        let woken = || [&first, &second].map(|count| count.0.load(Ordering::SeqCst));
        waker.wake_by_ref();
        relay.register(&Arc::clone(&first).into());
        waker.wake_by_ref();
        relay.register(&Arc::clone(&second).into());
        waker.wake_by_ref();
        assert_eq!(woken(), [1, 1]);
        for missed in [2, 0, 1] {
            assert!(!relay.mute());
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(relay.mute(), missed > 0);
            (0..missed).for_each(|_| waker.wake_by_ref());
            assert_eq!(relay.unmute(), missed > 0);
        }
        assert_eq!(woken(), [1, 1]);
        waker.wake();
        assert_eq!(woken(), [1, 2]);
    }
}
