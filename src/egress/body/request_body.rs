//! A request body on its way to an origin.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

use super::client_content::{
    Backpressure, ClientContent, MemoryCharge, ReadAllowance, RequestProgress, ResponseGuard,
};
use super::io_state::IoState;
use super::timeout_body::TimeoutBody;
use crate::clients::BodyMemory;
use crate::types::ClientKey;

/// Receives the interim responses to a request (RFC 9110 §15.2), from origins of HTTP/1.1.
pub trait InformationalListener: Send + Sync {
    /// Called for each interim response.
    fn on_informational(&self, status: StatusCode, headers: &HeaderMap);
}

/// The body of a request, with what observes its exchange. Most requests have no content.
pub struct RequestBody {
    content: Option<Box<ClientContent>>,
    progress: Arc<RequestProgress>,
    listener: Option<Arc<dyn InformationalListener>>,
}

impl RequestBody {
    /// No content.
    pub fn empty() -> Self {
        Self { content: None, progress: Arc::new(RequestProgress::new(true)), listener: None }
    }

    /// The body of a request without content, for a second attempt.
    pub(in crate::egress) fn empty_copy(&self) -> Self {
        let progress = Arc::clone(&self.progress);
        Self { content: None, progress, listener: self.listener.clone() }
    }

    /// A client's content, streamed as it comes.
    pub fn streamed(body: TimeoutBody) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let progress = Arc::new(RequestProgress::new(false));
        let content = Some(Box::new(ClientContent::new(body)));
        Self { content, progress, listener: None }
    }

    /// Holds the body back until `go` is sent, at most for `max_wait`: an origin that does not know
    /// the expectation says nothing, and waits for the body. When `go` is dropped, a final response
    /// has come, and the body is no longer sent (RFC 9110 §10.1.1).
    #[must_use]
    pub fn hold_until(mut self, go: oneshot::Receiver<()>, max_wait: Duration) -> Self {
        if let Some(content) = &mut self.content {
            content.hold_until(go, max_wait);
        }
        self
    }

    /// Says whether the client is known to read what it asks for.
    #[must_use]
    pub fn with_client_reads(self, client_reads: bool) -> Self {
        self.progress.set_client_reads(client_reads);
        self
    }

    /// Sets `allowance` when the content may be read in larger pieces.
    #[must_use]
    pub fn with_read_allowance(mut self, allowance: &Arc<ReadAllowance>) -> Self {
        if let Some(content) = &mut self.content {
            content.allowance = Some(Arc::clone(allowance));
        }
        self
    }

    /// Passes the interim responses to `listener`.
    #[must_use]
    pub fn with_informational_listener(mut self, listener: Arc<dyn InformationalListener>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// The progress of the request.
    pub fn progress(&self) -> Arc<RequestProgress> {
        Arc::clone(&self.progress)
    }

    /// Whether the client is known to read what it asks for.
    pub(in crate::egress) fn client_reads(&self) -> bool {
        self.progress.client_reads()
    }

    pub(in crate::egress) fn is_empty(&self) -> bool {
        self.is_end_stream()
    }

    /// Takes no more of the body from its client than the connection of `io` takes, and a little
    /// beyond. Without this, hyper would take as much as it may read of a response at once.
    pub(in crate::egress) fn limit_backlog(&mut self, io: &Arc<IoState>) {
        if let Some(content) = &mut self.content {
            content.backpressure = Some(Backpressure::new(io));
        }
    }

    /// Charges the memory that the body takes beyond the least to `client`, from `memory`.
    pub(in crate::egress) fn charge_to(&mut self, client: &ClientKey, memory: &Arc<BodyMemory>) {
        if let Some(content) = &mut self.content {
            content.charge = Some(MemoryCharge::new(client, memory));
        }
    }

    pub(in crate::egress) fn take_listener(&mut self) -> Option<Arc<dyn InformationalListener>> {
        self.listener.take()
    }

    /// For a body that is held back: what is to be kept with the response.
    pub(in crate::egress) fn response_guard(&mut self) -> Option<ResponseGuard> {
        self.content.as_mut()?.response_guard()
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.content.as_ref().map(|content| &content.body);
        f.debug_struct("RequestBody").field("body", &body).finish_non_exhaustive()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { content, progress, .. } = &mut *self;
        match content {
            Some(content) => content.poll_frame(progress, cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.content.as_ref().is_none_or(|content| content.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Some(content) => content.body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}
