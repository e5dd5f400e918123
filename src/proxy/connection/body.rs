//! The body of a response to a client: the origin's, streamed, or the proxy's own, small and whole.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use std::{fmt, io};

use bytes::Bytes;
use http::{HeaderValue, Version, request};
use http_body::{Frame, SizeHint};

use super::connection_state::ConnectionState;
use crate::clients::MemoryPermit;
use crate::egress::ResponseBody;
use crate::proxy::H2_STREAMS_FEW;
use crate::proxy::hop_by_hop::{HeaderSet, remove_forgeries};
use crate::types::origin::Scheme;
use crate::watch::SiteRow;

/// Bytes of a body that hyper and the system accept although the client reads nothing.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// A response body. The request is under way until its body has been read to its end, or dropped.
#[derive(Debug)]
pub struct Body {
    content: Content,
    /// Bytes that were passed to hyper.
    passed: usize,
    active: Option<ActiveRequest>,
    at_end: Option<AtEnd>,
    /// Where the bytes are counted.
    site: Option<Arc<SiteRow>>,
}

/// What is done at the end of a body, which may come early, with the bytes that were passed.
struct AtEnd(Box<dyn FnOnce(usize) + Send + Sync>);

#[derive(Debug)]
enum Content {
    Own(Bytes),
    Origin(Box<ResponseBody>),
}

/// A request under way on a client's connection; over when dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    state: Arc<ConnectionState>,
    /// The client's permit for the request, and the memory that the request has at least.
    permit: Option<MemoryPermit>,
}

impl ActiveRequest {
    /// Begins a request on the connection of `state`.
    pub fn begin(state: &Arc<ConnectionState>) -> Self {
        state.begin_request();
        Self { state: Arc::clone(state), permit: None }
    }

    /// Keeps `permit` until the request is over.
    pub fn attach_permit(&mut self, permit: MemoryPermit) {
        self.permit = Some(permit);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.state.end_request();
    }
}

impl Body {
    /// No content.
    pub fn empty() -> Self {
        Self::own(Bytes::new())
    }

    /// Content of the proxy itself.
    pub fn own(content: impl Into<Bytes>) -> Self {
        Self::of(Content::Own(content.into()), None)
    }

    /// The body of an origin's response, whose bytes are counted for its `site`.
    pub fn origin(body: Box<ResponseBody>, site: Arc<SiteRow>) -> Self {
        Self::of(Content::Origin(body), Some(site))
    }

    const fn of(content: Content, site: Option<Arc<SiteRow>>) -> Self {
        Self { content, passed: 0, active: None, at_end: None, site }
    }

    /// When the origin had the whole request; `None` for the proxy's own content.
    pub fn request_sent_at(&self) -> Option<Instant> {
        match &self.content {
            Content::Own(_) => None,
            Content::Origin(body) => body.request_sent_at(),
        }
    }

    /// The address that the origin's content comes from.
    pub fn peer(&self) -> Option<IpAddr> {
        match &self.content {
            Content::Own(_) => None,
            Content::Origin(body) => body.peer(),
        }
    }

    /// Does `work` at the end of the body.
    pub fn at_end(&mut self, work: impl FnOnce(usize) + Send + Sync + 'static) {
        self.at_end = Some(AtEnd(Box::new(work)));
    }

    /// The same body, as that of the response to `active`.
    pub fn of_request(mut self, active: ActiveRequest) -> Self {
        self.active = Some(active);
        self
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Some(AtEnd(work)) = self.at_end.take() {
            work(self.passed);
        }
        if let Some(site) = &self.site {
            site.add_bytes(self.passed);
        }
    }
}

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { content, passed, active, .. } = &mut *self;
        match content {
            Content::Own(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Own(bytes) => {
                *passed += bytes.len();
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            // hyper would accept more, although the client does not read.
            Content::Origin(_)
                if active.as_ref().is_some_and(|it| it.state.is_output_blocked()) =>
            {
                Poll::Pending
            }
            Content::Origin(body) => {
                let mut frame = ready!(Pin::new(body.as_mut()).poll_frame(cx));
                if let Some(trailers) =
                    frame.as_mut().and_then(|it| it.as_mut().ok()?.trailers_mut())
                {
                    remove_forgeries(trailers, HeaderSet::of(trailers));
                }
                if let Some(Ok(frame)) = &frame
                    && let Some(data) = frame.data_ref()
                {
                    *passed += data.len();
                    // Only the last bytes may still be in hyper: the client has read those
                    // before.
                    if *passed > READ_AHEAD_BYTES
                        && let Some(active) = active
                    {
                        active.state.note_delivered(data.len());
                    }
                }
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(bytes) => bytes.is_empty(),
            Content::Origin(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Origin(body) => body.size_hint(),
        }
    }
}

// The memory that a request under way holds at least, of the memory of all requests
// (`limits.body_memory`). The figures were measured with a client and an origin that both read
// nothing, and rounded up. Memory that only makes a request faster is taken besides, if there is
// any (`egress`).

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
pub fn footprint_of(head: &request::Parts, has_content: bool, scheme: Option<Scheme>) -> usize {
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
        let plain = footprint_of(&head(Version::HTTP_11, "a"), false, Some(Scheme::Http));
        for more in [
            footprint_of(&head(Version::HTTP_11, "a"), true, Some(Scheme::Http)),
            footprint_of(&head(Version::HTTP_11, "a"), false, Some(Scheme::Https)),
            footprint_of(&head(Version::HTTP_2, "a"), false, Some(Scheme::Http)),
            footprint_of(&head(Version::HTTP_11, &"a".repeat(30_000)), false, Some(Scheme::Http)),
        ] {
            assert!(more > plain + (12 << 10), "{more} {plain}");
        }
        let streamed = |has_content| {
            footprint_of(&head(Version::HTTP_2, "a"), has_content, Some(Scheme::Https))
        };
        assert!(streamed(true) > streamed(false) + crate::proxy::H2_STREAM_WINDOW_BYTES as usize);
    }
}
