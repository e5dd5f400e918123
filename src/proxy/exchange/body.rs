//! The body of a response to a client: an origin's, streamed, or our own, small and whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::clients::Held;
use crate::egress::ResponseBody;
use crate::proxy::exchange::connection_state::ConnectionState;
use crate::proxy::request::header_set::HeaderSet;
use crate::proxy::request::hop_by_hop::remove_forgeries;

/// Bytes of a body that an engine takes, and the system for it, though the client reads nothing.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// Holds the connection in its exchange until the body has been taken or dropped.
#[derive(Debug)]
pub struct Body {
    content: Content,
    /// Bytes of it that the engine has been given.
    given: usize,
    exchange: Option<Exchange>,
}

#[derive(Debug)]
enum Content {
    Own(Bytes),
    Origin(Box<ResponseBody>),
}

/// An exchange under way on a client's connection; over when dropped.
#[derive(Debug)]
pub struct Exchange {
    state: Arc<ConnectionState>,
    /// The client's right to it, and the memory that it has at the least.
    held: Option<Held>,
}

impl Exchange {
    pub fn begin(state: &Arc<ConnectionState>) -> Self {
        state.begin_exchange();
        Self { state: Arc::clone(state), held: None }
    }

    /// Gives `held` back when the exchange is over.
    pub fn holds(&mut self, held: Held) {
        self.held = Some(held);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.state.end_exchange();
    }
}

impl Body {
    pub fn empty() -> Self {
        Self::own(Bytes::new())
    }

    pub fn own(content: impl Into<Bytes>) -> Self {
        Self { content: Content::Own(content.into()), given: 0, exchange: None }
    }

    pub fn origin(body: Box<ResponseBody>) -> Self {
        Self { content: Content::Origin(body), given: 0, exchange: None }
    }

    /// When its origin had the whole request, where it is of one.
    pub fn asked_at(&self) -> Option<Instant> {
        match &self.content {
            Content::Own(_) => None,
            Content::Origin(body) => body.request_sent_at(),
        }
    }

    pub fn within(mut self, exchange: Exchange) -> Self {
        self.exchange = Some(exchange);
        self
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { content, given, exchange } = &mut *self;
        match content {
            Content::Own(bytes) if bytes.is_empty() => Poll::Ready(None),
            Content::Own(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            // The engine would take some more for a client that does not read.
            Content::Origin(_)
                if exchange.as_ref().is_some_and(|it| it.state.is_output_blocked()) =>
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
                    *given += data.len();
                    // The engine has sent what is not of the last bytes.
                    if *given > READ_AHEAD_BYTES
                        && let Some(exchange) = exchange
                    {
                        exchange.state.note_delivered(data.len());
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
