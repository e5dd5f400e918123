//! What a request is sent over, before it is sent: a connection of HTTP/1.1, or one stream of HTTP/2.
//! Once the request is sent it is a `Lease`, which also has the request's turn.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use http::header::{CONTENT_LENGTH, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request, request};
use http_body::Body as _;
use tokio::sync::Semaphore;
use tokio_util::either::Either;

use super::body::RequestBody;
use super::http1::{Http1Connection, HyperResponse, LargeRead};
use super::http2::{Http2Connection, Http2Stream, to_http1, to_http2};
use super::parent::Forwarder;
use super::pool::Pool;
use super::tls::Versions;
use crate::types::origin::Origin;

/// What a request is sent over: a whole connection, or one stream of a shared one.
#[derive(Debug)]
pub enum Transport {
    /// Boxed: it is moved through many functions in each exchange.
    Http1(Box<Http1Connection>),
    Http2(Http2Stream),
}

/// A connection to an origin, with where it came from.
#[derive(Debug)]
pub struct Connection {
    pub transport: Transport,
    /// The pool that keeps the connection between exchanges.
    pub pool: Weak<Pool>,
    /// Whether it was kept from an earlier exchange: the origin may have closed it meanwhile.
    pub is_reused: bool,
    /// Whether the origin asked for a client certificate in the handshake.
    pub certificate_requested: bool,
}

impl Transport {
    /// Whether the origin ends the connection, since it gets too much.
    pub fn wants_calm(&self) -> bool {
        matches!(self, Self::Http2(stream) if stream.wants_calm())
    }

    /// The address of the origin.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            Self::Http1(connection) => connection.peer(),
            Self::Http2(stream) => stream.connection().peer(),
        }
    }

    /// The parent that it goes by: scheme, host and port.
    pub fn via(&self, origin: &Origin) -> Option<String> {
        match self {
            Self::Http1(connection) => connection.via(origin),
            Self::Http2(stream) => stream.connection().via(origin),
        }
    }

    /// The parent that forwards what is sent over it.
    pub fn forwarder(&self) -> Option<&Forwarder> {
        match self {
            Self::Http1(connection) => connection.forwarder.as_ref(),
            Self::Http2(_) => None,
        }
    }

    /// Checks whether it can take a request now, after it has been idle.
    pub fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(connection) => connection.is_open(),
            Self::Http2(stream) => !stream.sender.is_closed(),
        }
    }

    /// Has a response of `remaining` bytes read in the largest pieces, if there is a permit.
    pub fn begin_large_read(
        &mut self,
        permits: &Arc<Semaphore>,
        remaining: Option<u64>,
    ) -> Option<LargeRead> {
        match self {
            Self::Http1(connection) => connection.begin_large_read(permits, remaining?),
            Self::Http2(_) => None,
        }
    }

    /// Gives the connection a task of its own, for what goes on beside the response: an upload, or
    /// the protocol of an upgrade.
    pub fn detach(&mut self) {
        if let Self::Http1(connection) = self {
            connection.detach();
        }
    }

    /// Sends a request. The response future is to be polled by [`Self::poll_driven`]; the error
    /// carries the request when nothing of it was sent.
    pub fn send(
        &mut self,
        origin: &Origin,
        mut request: BoxedRequest<RequestBody>,
        versions: Versions,
        is_for_robots_txt: bool,
    ) -> impl Future<Output = HyperResponse> + use<> {
        match self {
            Self::Http1(connection) => {
                to_http1(&mut request.head);
                frame_content(&mut request);
                if let Some(forwarder) = &connection.forwarder {
                    forwarder.address(origin, &mut request.head);
                }
                let request = with_informational_listener(request);
                Either::Left(connection.send(request, versions, is_for_robots_txt))
            }
            Self::Http2(stream) => {
                to_http2(&mut request.head, origin);
                let request = with_informational_listener(request);
                // hyper passes no interim responses on from HTTP/2. The listener must not be
                // dropped before the final response: its sender's loss means "final response" to a
                // body that waits for 100 (Continue).
                let listener = request.extensions().clone();
                let response = stream.sender.try_send_request(request);
                Either::Right(async move {
                    let _listener = listener;
                    response.await
                })
            }
        }
    }

    /// Reads the head of a response once more that hyper did not take, to a request of `method`
    /// that was sent whole. `None` if that is not possible.
    ///
    /// # Errors
    ///
    /// What is wrong with the head, or with the stream.
    pub async fn read_again(
        &mut self,
        method: Method,
    ) -> Option<io::Result<Pin<Box<dyn Future<Output = HyperResponse> + Send>>>> {
        let Self::Http1(connection) = self else { return None };
        let response = connection.read_again(method).await?;
        Some(response.map(|response| Box::pin(response) as _))
    }

    /// Polls `poll`, and drives the connection that it waits for.
    pub fn poll_driven<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        match self {
            Self::Http1(connection) => connection.poll_driven(cx, poll),
            Self::Http2(_) => poll(cx),
        }
    }
}

/// Frames content of unknown length: hyper takes a GET or HEAD without a length for one without
/// content, which would be lost (RFC 9110 §9.3.1 gives it no meaning, but a proxy passes it on).
fn frame_content(request: &mut BoxedRequest<RequestBody>) {
    let has_no_length = request.body.size_hint().exact().is_none();
    if has_no_length && !request.head.headers.contains_key(CONTENT_LENGTH) {
        request.head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Registers the listener for 1xx responses with hyper. It survives in a request that comes back
/// unsent.
fn with_informational_listener(mut request: BoxedRequest<RequestBody>) -> Request<RequestBody> {
    let listener = request.body.take_listener();
    let mut request = request.whole();
    if let Some(listener) = listener {
        hyper::ext::on_informational(&mut request, move |response| {
            listener.on_informational(response.status(), response.headers());
        });
    }
    request
}

impl Connection {
    /// A connection that was idle in the pool `pool`.
    pub const fn idle(connection: Box<Http1Connection>, pool: Weak<Pool>) -> Self {
        Self {
            transport: Transport::Http1(connection),
            pool,
            is_reused: true,
            certificate_requested: false,
        }
    }

    /// A new stream of a connection that other exchanges share.
    pub fn shared(stream: Http2Stream, pool: Weak<Pool>) -> Self {
        let certificate_requested = stream.certificate_requested();
        Self { transport: Transport::Http2(stream), pool, is_reused: true, certificate_requested }
    }

    /// A connection that was made for this exchange.
    pub const fn new(transport: Transport, pool: Weak<Pool>, certificate_requested: bool) -> Self {
        Self { transport, pool, is_reused: false, certificate_requested }
    }

    /// Whether a request without a response may be sent again: the origin may have closed a kept
    /// connection, or refuse a stream of HTTP/2 (RFC 9113 §8.7).
    pub const fn may_need_retry(&self) -> bool {
        self.is_reused || matches!(self.transport, Transport::Http2(_))
    }

    /// Whether it was idle before this exchange, so that its origin may have been closing it.
    pub const fn was_idle(&self) -> bool {
        self.is_reused && matches!(self.transport, Transport::Http1(_))
    }

    /// Notes that the origin has responded: it does without a client certificate.
    pub fn note_response(&mut self) {
        match &mut self.transport {
            Transport::Http1(connection) => connection.note_response(),
            Transport::Http2(stream) => stream.note_response(),
        }
    }

    /// Returns a connection to `origin` to its pool, after no exchange.
    pub fn give_back(mut self, origin: &Origin) {
        if self.transport.is_open()
            && let Transport::Http1(connection) = self.transport
            && let Some(pool) = self.pool.upgrade()
        {
            pool.keep(origin, connection);
        }
    }

    /// The connection that other exchanges can share, if it is one.
    pub fn shareable(&self) -> Option<Http2Connection> {
        match &self.transport {
            Transport::Http1(_) => None,
            Transport::Http2(stream) => Some(stream.connection().clone()),
        }
    }
}

/// A request as functions pass it on. Heads are large: unboxed, each future on the way would have
/// room of its own for one.
#[derive(Debug)]
pub struct BoxedRequest<B> {
    pub head: Box<request::Parts>,
    pub body: B,
}

impl<B> From<Request<B>> for BoxedRequest<B> {
    fn from(request: Request<B>) -> Self {
        let (head, body) = request.into_parts();
        Self { head: Box::new(head), body }
    }
}

impl<B> BoxedRequest<B> {
    /// The request with its head unboxed.
    pub fn whole(self) -> Request<B> {
        Request::from_parts(*self.head, self.body)
    }
}
