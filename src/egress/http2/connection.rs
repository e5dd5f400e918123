//! A connection of HTTP/2, and the streams that exchanges have of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hyper::client::conn::http2::SendRequest;

use super::calm_watch::WantsCalm;
use super::window::Window;
use crate::clients::MemoryPermit;
use crate::egress::body::RequestBody;
use crate::egress::config::{ConfigSnapshot, Revalidation};
use crate::egress::limits::HTTP2_STREAMS_MAX;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::loop_token::LoopTokens;
use crate::types::origin::Origin;

/// A connection that exchanges share.
#[derive(Clone, Debug)]
pub struct Http2Connection {
    sender: SendRequest<RequestBody>,
    wants_calm: WantsCalm,
    window: Window,
    usage: Arc<Lock<Usage>>,
}

#[derive(Debug)]
struct Usage {
    revalidation: Revalidation,
    streams: usize,
    idle_since: Instant,
    /// It takes no further exchange; those under way go on.
    is_retired: bool,
    /// The origin asked for a client certificate, and has not responded to any request yet.
    certificate_requested: bool,
}

/// One stream of a shared connection, for one exchange.
#[derive(Debug)]
pub struct Http2Stream {
    pub sender: SendRequest<RequestBody>,
    connection: Http2Connection,
    /// Memory for a large window.
    pub memory: Option<MemoryPermit>,
}

impl Http2Connection {
    /// A connection without a stream yet.
    pub fn new(
        (sender, wants_calm): (SendRequest<RequestBody>, WantsCalm),
        window: Window,
        revalidation: Revalidation,
        certificate_requested: bool,
    ) -> Self {
        let usage = Usage {
            revalidation,
            streams: 0,
            idle_since: clock::monotonic(),
            is_retired: false,
            certificate_requested,
        };
        Self { sender, wants_calm, window, usage: Arc::new(Lock::new(usage)) }
    }

    /// A stream for one exchange.
    pub fn stream(&self) -> Http2Stream {
        self.usage.lock().streams += 1;
        Http2Stream { sender: self.sender.clone(), connection: self.clone(), memory: None }
    }

    /// The window of each of its streams.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The address of the origin.
    pub fn peer(&self) -> Option<IpAddr> {
        self.usage.lock().revalidation.peer()
    }

    /// The parent that it goes by.
    pub fn via(&self, origin: &Origin) -> Option<String> {
        self.usage.lock().revalidation.via(origin)
    }

    /// Whether it is for requests that came by other proxies.
    pub fn has_loop_tokens(&self) -> bool {
        self.usage.lock().revalidation.has_loop_tokens()
    }

    /// Orders connections by which to close first: one without streams before one with any, and the
    /// one that has had a stream least lately before the others.
    pub fn idle_rank(&self) -> (bool, Instant) {
        let usage = self.usage.lock();
        (usage.streams > 0, usage.idle_since)
    }

    /// The number of streams in use.
    pub fn streams(&self) -> usize {
        self.usage.lock().streams
    }

    /// Checks whether it may be used under `current`. If not, it takes no further exchange.
    pub fn revalidate(&self, origin: &Origin, current: &Arc<ConfigSnapshot>) -> bool {
        let mut usage = self.usage.lock();
        let is_permitted = usage.revalidation.revalidate(origin, current);
        usage.is_retired |= !is_permitted;
        is_permitted
    }

    /// Whether it takes one more exchange, of a request that came by the proxies of `loop_tokens`.
    pub fn has_room(&self, loop_tokens: &LoopTokens) -> bool {
        let usage = self.usage.lock();
        let is_open = !self.sender.is_closed() && !usage.is_retired;
        is_open && usage.streams < HTTP2_STREAMS_MAX && usage.revalidation.is_for(loop_tokens)
    }

    /// Whether it is open, and in use or not idle for longer than `timeout`.
    pub fn is_worth_keeping(&self, now: Instant, timeout: Duration) -> bool {
        let usage = self.usage.lock();
        let is_in_time = usage.streams > 0 || now.duration_since(usage.idle_since) < timeout;
        is_in_time && !usage.is_retired && !self.sender.is_closed()
    }
}

impl Http2Stream {
    /// The connection of the stream.
    pub const fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// Whether the origin asked for a client certificate, and has not responded to any request yet.
    pub fn certificate_requested(&self) -> bool {
        self.connection.usage.lock().certificate_requested
    }

    /// Notes that the origin has responded: it does without a client certificate.
    pub fn note_response(&self) {
        self.connection.usage.lock().certificate_requested = false;
    }

    /// Whether the origin ends the connection, since it gets too much (ENHANCE_YOUR_CALM).
    pub fn wants_calm(&self) -> bool {
        self.connection.wants_calm.load(Ordering::Acquire)
    }

    /// Lets the connection take no further exchange: the origin is closing it.
    pub fn retire(&self) {
        self.connection.usage.lock().is_retired = true;
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        let mut usage = self.connection.usage.lock();
        usage.streams -= 1;
        usage.idle_since = clock::monotonic();
    }
}
