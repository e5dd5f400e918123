//! The body of a response to a client: the origin's, streamed, or the proxy's own, small and whole.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::clients::MemoryPermit;
use crate::egress::ResponseBody;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::request::header_set::HeaderSet;
use crate::proxy::request::hop_by_hop::remove_forgeries;

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
        Self { content: Content::Own(content.into()), passed: 0, active: None, at_end: None }
    }

    /// The body of an origin's response.
    pub fn origin(body: Box<ResponseBody>) -> Self {
        Self { content: Content::Origin(body), passed: 0, active: None, at_end: None }
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
