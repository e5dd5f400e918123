//! HTTP/2 to origins: connections that many exchanges share.

mod frames;
mod pool;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, Uri, Version, request};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::body::RequestBody;
use super::config::{ConfigSnapshot, HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAMS_MAX, Revalidation};
use super::error::Error;
use super::hyper_error::setup_error;
use crate::clients::MemoryPermit;
use crate::runtime::clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;
use frames::{CalmWatch, WantsCalm, WithoutEmptyFrames};
pub use pool::{Http2Pool, Opening};

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

    /// Whether it takes one more exchange.
    pub fn has_room(&self) -> bool {
        let usage = self.usage.lock();
        let is_open = !self.sender.is_closed() && !usage.is_retired;
        is_open && usage.streams < HTTP2_STREAMS_MAX
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

/// Streams that we have reset and still ignore frames of (RFC 9113 §5.4.2): all clients of a
/// connection may leave at once.
const HTTP2_RESET_STREAMS_MAX: usize = HTTP2_STREAMS_MAX;

/// Malformed answers on one connection before it is closed.
const HTTP2_MALFORMED_MAX: usize = 100;

/// Silence after which an origin with open streams is asked for a sign of life (RFC 9113 §6.7), and
/// how long it has for it: many exchanges hang on one connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(15);

const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets up HTTP/2 on a stream, and returns the first stream of the connection.
pub async fn handshake(
    origin: &Origin,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    window: Window,
    revalidation: Revalidation,
    certificate_requested: bool,
) -> Result<Http2Stream, Error> {
    let (stream, wants_calm) = CalmWatch::new(stream);
    let (sender, connection) = builder(revalidation.config().max_header_bytes, window)
        .handshake(TokioIo::new(WithoutEmptyFrames::new(stream)))
        .await
        .map_err(|error| setup_error(origin, &error))?;
    // The task ends with the last exchange once every sender is dropped.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let opened = (sender, wants_calm);
    Ok(Http2Connection::new(opened, window, revalidation, certificate_requested).stream())
}

/// Sets every limit, and leaves none to hyper's defaults.
fn builder(max_header_bytes: usize, window: Window) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(HTTP2_STREAMS_MAX)
        .initial_stream_window_size(window.bytes())
        // Room for every stream: slow readers never stop the others (RFC 9113 §5.2.2).
        .initial_connection_window_size(window.bytes() * HTTP2_STREAMS_MAX as u32)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(HTTP2_RESET_STREAMS_MAX)
        .max_local_error_reset_streams(HTTP2_MALFORMED_MAX)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    builder
}

/// Headers that HTTP/2 does not have, besides those that `Connection` names (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Converts origin-form with `Host` to the pseudo-headers `:scheme`, `:authority` and `:path`
/// (RFC 9113 §8.3.1), and removes what belongs to a connection of HTTP/1.1.
pub fn to_http2(head: &mut request::Parts, origin: &Origin) {
    let headers = &mut head.headers;
    let authority = match headers.remove(HOST) {
        Some(host) => host.to_str().map(str::to_owned).ok(),
        None => None,
    };
    let takes_trailers =
        headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in &CONNECTION_SPECIFIC {
        headers.remove(name);
    }
    headers.remove(TE);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = origin.scheme().as_str().parse().ok();
    parts.authority = authority.unwrap_or_else(|| origin.authority()).parse().ok();
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    head.version = Version::HTTP_2;
}

/// Converts a request back that no HTTP/2 connection took. Any other stays as it is.
pub fn to_http1(head: &mut request::Parts) {
    if head.version != Version::HTTP_2 {
        return;
    }
    head.version = Version::HTTP_11;
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = None;
    if let Some(authority) = parts.authority.take()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    if head.headers.contains_key(TE) {
        head.headers.insert(CONNECTION, HeaderValue::from_static("TE"));
    }
}

/// Bytes that an origin may send on one stream before they are read (RFC 9113 §5.2): what a slow
/// client makes the proxy hold.
const SMALL_WINDOW_BYTES: u32 = 32 << 10;

/// The same for clients that are known to read, when there is memory for it.
const LARGE_WINDOW_BYTES: u32 = 256 << 10;

/// How much an origin may send on a stream before it is read. All streams of a connection have the
/// same window, so there are connections of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// For clients that have not shown yet that they read, and when memory is short.
    Small,
    /// For clients that are known to read, with memory for each stream.
    Large,
}

impl Window {
    /// Bytes of one stream.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Small => SMALL_WINDOW_BYTES,
            Self::Large => LARGE_WINDOW_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::types::origin::split_url;

    fn head(target: &str) -> request::Parts {
        Request::builder()
            .uri(target)
            .header("host", "example.com:8443")
            .header("connection", "TE, upgrade")
            .header("te", "trailers")
            .header("upgrade", "websocket")
            .header("transfer-encoding", "chunked")
            .header("cookie", "a=b")
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn the_host_becomes_the_authority_and_connection_headers_go() {
        let (origin, _) = split_url(b"https://example.com:8443/").unwrap();
        let mut head = head("/a//../b?q=%7e");
        to_http2(&mut head, &origin);
        assert_eq!(head.uri, "https://example.com:8443/a//../b?q=%7e");
        let mut names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cookie", "te"]);
    }

    #[test]
    fn a_request_that_was_not_taken_is_converted_back() {
        let (origin, _) = split_url(b"https://example.com:8443/").unwrap();
        for target in ["/a//../b?q=%7e", "*", "/"] {
            let mut head = head(target);
            to_http2(&mut head, &origin);
            to_http1(&mut head);
            assert_eq!(head.uri, target);
            assert_eq!(head.headers["host"], "example.com:8443");
            assert_eq!(head.headers["connection"], "TE");
        }
    }
}
