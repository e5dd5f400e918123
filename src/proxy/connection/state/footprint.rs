//! The memory that a request under way holds at least, of the memory of all requests
//! (`limits.body_memory`). The figures were measured with a client and an origin that both read
//! nothing, and rounded up. Memory that only makes a request faster is taken besides, if there is
//! any (`egress`).

use http::{HeaderValue, Version, request};

use crate::proxy::limits::H2_STREAMS_FEW;
use crate::types::origin::Scheme;

/// Tasks, hyper's connections of both sides, and three pieces of a body, read in the smallest
/// portions.
const REQUEST_BYTES: usize = 32 << 10;

/// TLS towards the origin, and an HTTP/2 stream with a small window.
const SECURE_BYTES: usize = 40 << 10;

/// Bytes that wait to be sent on an HTTP/2 stream of the client.
const STREAM_BYTES: usize = 16 << 10;

/// Content on its way to the origin, and the buffers for it.
const CONTENT_BYTES: usize = 48 << 10;

/// The same over HTTP/2: the whole window of the client's stream may arrive.
const STREAM_CONTENT_BYTES: usize = 120 << 10;

/// Copies of a head: as received, as sent, and in the buffers of hyper's connections.
const HEAD_COPIES: usize = 3;

/// Bytes of one header beside its value.
const FIELD_BYTES: usize = 64;

/// An intercepted connection between requests: the client's TLS and hyper's idle connection.
pub const INTERCEPTED_BYTES: usize = 40 << 10;

/// A refused HTTP/2 stream whose client does not read the rejection.
pub const REFUSED_STREAM_BYTES: usize = 3 << 10;

/// An intercepted HTTP/2 connection, beside the admitted requests: a head that is arriving, and as
/// many refused streams as there may be when memory is short.
pub const MULTIPLEXED_BYTES: usize =
    INTERCEPTED_BYTES + (64 << 10) + H2_STREAMS_FEW as usize * REFUSED_STREAM_BYTES;

/// A connection that has left HTTP: a buffer for each direction, and the TLS of both sides.
pub const UPGRADED_BYTES: usize = 96 << 10;

/// A tunnel by splice(2); without a pipe, a buffer for each direction.
pub const TUNNEL_BYTES: usize = 36 << 10;

/// Bytes that a request with this head holds at least. `scheme`: of the origin it may be sent to.
pub fn of(head: &request::Parts, has_content: bool, scheme: Option<Scheme>) -> usize {
    let is_stream = head.version == Version::HTTP_2;
    let mut bytes = REQUEST_BYTES + HEAD_COPIES * head_bytes(head);
    if scheme == Some(Scheme::Https) {
        bytes += SECURE_BYTES;
    }
    if is_stream {
        bytes += STREAM_BYTES;
    }
    match (has_content, is_stream) {
        (false, _) => bytes,
        (true, false) => bytes + CONTENT_BYTES,
        (true, true) => bytes + STREAM_CONTENT_BYTES,
    }
}

fn head_bytes(head: &request::Parts) -> usize {
    let values: usize = head.headers.values().map(HeaderValue::len).sum();
    let target = head.uri.path_and_query().map_or(0, |path| path.as_str().len());
    values + target + FIELD_BYTES * head.headers.len()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(version: Version, field: &str) -> request::Parts {
        let request = Request::builder().version(version).uri("/a").header("x", field);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn content_tls_http2_and_a_long_head_each_take_memory() {
        let plain = of(&head(Version::HTTP_11, "a"), false, Some(Scheme::Http));
        for more in [
            of(&head(Version::HTTP_11, "a"), true, Some(Scheme::Http)),
            of(&head(Version::HTTP_11, "a"), false, Some(Scheme::Https)),
            of(&head(Version::HTTP_2, "a"), false, Some(Scheme::Http)),
            of(&head(Version::HTTP_11, &"a".repeat(30_000)), false, Some(Scheme::Http)),
        ] {
            assert!(more > plain + (12 << 10), "{more} {plain}");
        }
        let streamed =
            |has_content| of(&head(Version::HTTP_2, "a"), has_content, Some(Scheme::Https));
        assert!(
            streamed(true)
                > streamed(false) + crate::proxy::limits::H2_STREAM_WINDOW_BYTES as usize
        );
    }
}
