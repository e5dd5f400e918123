//! A request body on its way to an origin.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::backpressure::{Backpressure, MemoryCharge};
use super::io_state::IoState;
use super::request_progress::RequestProgress;
use super::timeout_body::TimeoutBody;
use crate::clients::BodyMemory;
use crate::types::client_key::ClientKey;

/// MemoryPermit with the response; its drop tells a body that was not wanted that the exchange is
/// over.
pub type ResponseGuard = oneshot::Sender<Infallible>;

/// Receives the interim responses to a request (RFC 9110 §15.2), from origins of HTTP/1.1.
pub trait InformationalListener: Send + Sync {
    /// Called for each interim response.
    fn on_informational(&self, status: StatusCode, headers: &HeaderMap);
}

/// The body of a request, with what observes its exchange. Most requests have no content.
pub struct RequestBody {
    streamed: Option<Box<Streamed>>,
    progress: Arc<RequestProgress>,
    listener: Option<Arc<dyn InformationalListener>>,
}

/// Whether a client's content may be read in larger pieces: not until the origin has shown that it
/// takes it, and there is memory for them.
#[derive(Debug, Default)]
pub struct ReadAllowance(AtomicBool);

impl ReadAllowance {
    /// Whether larger pieces are allowed.
    pub fn is_large(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits until the origin asks for the body, or has responded without it.
type Hold = Pin<Box<dyn Future<Output = Wanted> + Send>>;

/// What a held body is to do.
enum Wanted {
    Body,
    /// The final response has come: the body is never sent.
    Nothing,
}

/// A client's content.
struct Streamed {
    body: TimeoutBody,
    /// With `Expect: 100-continue`, the client is not asked for the body before the origin asks for
    /// it.
    hold: Option<Hold>,
    /// The body was not wanted: the request stays incomplete while its response is read, and ends
    /// with it.
    is_unwanted: bool,
    response_dropped: Option<oneshot::Receiver<Infallible>>,
    backpressure: Option<Backpressure>,
    charge: Option<MemoryCharge>,
    allowance: Option<Arc<ReadAllowance>>,
}

impl RequestBody {
    /// No content.
    pub fn empty() -> Self {
        Self { streamed: None, progress: Arc::new(RequestProgress::new(true)), listener: None }
    }

    /// The body of a request without content, for a second attempt.
    pub(in crate::egress) fn empty_copy(&self) -> Self {
        let progress = Arc::clone(&self.progress);
        Self { streamed: None, progress, listener: self.listener.clone() }
    }

    /// A client's content, streamed as it comes.
    pub fn streamed(body: TimeoutBody) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let streamed = Streamed {
            body,
            hold: None,
            is_unwanted: false,
            response_dropped: None,
            backpressure: None,
            charge: None,
            allowance: None,
        };
        let progress = Arc::new(RequestProgress::new(false));
        Self { streamed: Some(Box::new(streamed)), progress, listener: None }
    }

    /// Holds the body back until `go` is sent, at most for `max_wait`: an origin that does not know
    /// the expectation says nothing, and waits for the body. When `go` is dropped, a final response
    /// has come, and the body is no longer sent (RFC 9110 §10.1.1).
    #[must_use]
    pub fn hold_until(mut self, go: oneshot::Receiver<()>, max_wait: Duration) -> Self {
        if let Some(streamed) = &mut self.streamed {
            streamed.hold = Some(Box::pin(async move {
                match timeout(max_wait, go).await {
                    Ok(Err(_)) => Wanted::Nothing,
                    Ok(Ok(())) | Err(_) => Wanted::Body,
                }
            }));
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
        if let Some(streamed) = &mut self.streamed {
            streamed.allowance = Some(Arc::clone(allowance));
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
        if let Some(streamed) = &mut self.streamed {
            streamed.backpressure = Some(Backpressure::new(io));
        }
    }

    /// Charges the memory that the body takes beyond the least to `client`, from `memory`.
    pub(in crate::egress) fn charge_to(&mut self, client: &ClientKey, memory: &Arc<BodyMemory>) {
        if let Some(streamed) = &mut self.streamed {
            streamed.charge = Some(MemoryCharge::new(client, memory));
        }
    }

    pub(in crate::egress) fn take_listener(&mut self) -> Option<Arc<dyn InformationalListener>> {
        self.listener.take()
    }

    /// For a body that is held back: what is to be kept with the response.
    pub(in crate::egress) fn response_guard(&mut self) -> Option<ResponseGuard> {
        let streamed = self.streamed.as_mut().filter(|streamed| streamed.hold.is_some())?;
        let (guard, dropped) = oneshot::channel();
        streamed.response_dropped = Some(dropped);
        Some(guard)
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.streamed.as_ref().map(|streamed| &streamed.body);
        f.debug_struct("RequestBody").field("body", &body).finish_non_exhaustive()
    }
}

impl Streamed {
    fn poll_frame(
        &mut self,
        progress: &RequestProgress,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(go) = &mut self.hold {
            self.is_unwanted = matches!(ready!(go.as_mut().poll(cx)), Wanted::Nothing);
            self.hold = None;
        }
        if self.is_unwanted {
            if let Some(dropped) = &mut self.response_dropped {
                let _ = ready!(Pin::new(dropped).poll(cx));
            }
            let unwanted = io::Error::other("the origin answered without the body");
            return Poll::Ready(Some(Err(unwanted)));
        }
        if let Some(backpressure) = &mut self.backpressure {
            if backpressure.update() {
                progress.start_origin_timer();
            }
            if backpressure.wait_if_full() {
                return Poll::Pending;
            }
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            progress.wait_for_client();
            return Poll::Pending;
        };
        progress.start_origin_timer();
        self.count(&frame);
        if frame.is_none() || self.body.is_end_stream() {
            progress.note_complete();
            if let Some(backpressure) = &self.backpressure {
                backpressure.note_complete();
            }
        }
        Poll::Ready(frame)
    }

    /// Counts the bytes of a frame, and allows larger reads when there is memory for them.
    fn count(&mut self, frame: &Option<Result<Frame<Bytes>, io::Error>>) {
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        let bytes = data.map_or(0, Bytes::len);
        let was_granted = self.charge.as_mut().is_some_and(|charge| charge.add(bytes));
        if let Some(backpressure) = &mut self.backpressure {
            backpressure.add(bytes);
            if was_granted {
                backpressure.allow_more();
            }
        }
        if was_granted && let Some(allowance) = &self.allowance {
            allowance.0.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.0.store(false, Ordering::Relaxed);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { streamed, progress, .. } = &mut *self;
        match streamed {
            Some(streamed) => streamed.poll_frame(progress, cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.streamed.as_ref().is_none_or(|streamed| streamed.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.streamed {
            Some(streamed) => streamed.body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

#[cfg(test)]
mod tests;
