//! HTTP/2 towards origins: a request in its terms (RFC 9113 §8), and the bounds of a connection.

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::{Uri, Version, request};
use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

use crate::egress::limits::{HTTP2_LARGE_WINDOW_BYTES, HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAMS_MAX};
use crate::types::origin::Origin;

/// Bytes that an origin may send on one stream before they are read (RFC 9113 §5.2): what a slow
/// client makes us hold. The window of a connection has room for every stream, so that slow readers never
/// stop the others (§5.2.2).
const HTTP2_SMALL_WINDOW_BYTES: u32 = 32 << 10;

/// Streams that we have reset and still ignore frames of (RFC 9113 §5.4.2): all clients of a
/// connection may leave at once.
const HTTP2_RESET_STREAMS_MAX: usize = HTTP2_STREAMS_MAX;

/// Malformed answers on one connection before it is closed.
const HTTP2_MALFORMED_MAX: usize = 100;

/// Silence after which an origin with open streams is asked for a sign of life (RFC 9113 §6.7), and
/// how long it has for it: many exchanges hang on one connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(15);
const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Fields that HTTP/2 does not have, besides those that `Connection` names (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// How much an origin may send on a stream before it is read. It is the same for all streams of a connection, so
/// there are connections of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    /// For clients that have yet to show that they read, and where memory is short.
    Small,
    /// For those that have, each stream with memory for it.
    Large,
}

impl Window {
    /// Bytes of one stream.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Small => HTTP2_SMALL_WINDOW_BYTES,
            Self::Large => HTTP2_LARGE_WINDOW_BYTES,
        }
    }
}

/// Every bound of a connection, none left to what the library thinks right.
pub fn builder(max_header_bytes: usize, window: Window) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(HTTP2_STREAMS_MAX)
        .initial_stream_window_size(window.bytes())
        .initial_connection_window_size(window.bytes() * HTTP2_STREAMS_MAX as u32)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(HTTP2_RESET_STREAMS_MAX)
        .max_local_error_reset_streams(HTTP2_MALFORMED_MAX)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    builder
}

/// From origin-form with `Host` to the pseudo-fields `:scheme`, `:authority` and `:path`
/// (RFC 9113 §8.3.1), without what belongs to a connection of HTTP/1.1.
pub fn to_http2(head: &mut request::Parts, origin: &Origin) {
    let headers = &mut head.headers;
    let authority = match headers.remove(HOST) {
        Some(host) => host.to_str().map(str::to_owned).ok(),
        None => None,
    };
    let trailers =
        headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in &CONNECTION_SPECIFIC {
        headers.remove(name);
    }
    headers.remove(TE);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = origin.scheme().as_str().parse().ok();
    parts.authority = authority.unwrap_or_else(|| origin.authority()).parse().ok();
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    head.version = Version::HTTP_2;
}

/// The way back, for a request that no HTTP/2 connection took. Any other stays as it is.
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
    fn the_host_becomes_the_authority_and_the_connections_own_fields_go() {
        let (origin, _) = split_url(b"https://example.com:8443/").unwrap();
        let mut head = head("/a//../b?q=%7e");
        to_http2(&mut head, &origin);
        assert_eq!(head.uri, "https://example.com:8443/a//../b?q=%7e");
        let mut names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cookie", "te"]);
    }

    #[test]
    fn a_request_that_was_not_taken_is_again_what_it_was() {
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
