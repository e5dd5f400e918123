//! A connection of HTTP/1.1, which one exchange at a time uses and drives in its own task.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Method, Request};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use super::driver::{self, Driver, HyperResponse};
use super::large_read::{BufferPermit, LargeRead};
use super::read_limit::ReadLimited;
use super::response_head::{HeadOf, HeadReader};
use super::wake_relay::WakeRelay;
use crate::clients::{BodyMemory, MemoryPermit};
use crate::egress::body::{IoState, RequestBody};
use crate::egress::config::{ConfigSnapshot, Revalidation};
use crate::egress::error::Error;
use crate::egress::hyper_error::setup_error;
use crate::egress::limits::{
    HYPER_HEADERS_MAX, ORIGIN_READ_LARGE_BYTES, ORIGIN_READ_LARGEST_BYTES,
};
use crate::egress::parent::Forwarder;
use crate::egress::tls::Versions;
use crate::types::client_key::ClientKey;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Origin;

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

    /// Whether it is for requests that came by the proxies of `loop_tokens`.
    pub fn is_for(&self, loop_tokens: &LoopTokens) -> bool {
        self.revalidation.is_for(loop_tokens)
    }

    /// Whether it is for requests that came by other proxies.
    pub fn has_loop_tokens(&self) -> bool {
        self.revalidation.has_loop_tokens()
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
    /// What is wrong with the head ([`HeadFault`](super::HeadFault)), or with the stream.
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
            tokio::spawn(driver::run(driver));
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
                let _ = timeout(limit, driver::run(driver)).await;
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
