//! The content of a request as its client sends it: held back where the origin is to ask for it
//! first, and read no faster than the origin takes it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::backpressure::{Backpressure, MemoryCharge};
use super::request_progress::RequestProgress;
use super::timeout_body::TimeoutBody;

/// Kept with the response of a body that was held back; its drop ends the body, if that was never
/// sent.
pub type ResponseGuard = oneshot::Sender<Infallible>;

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
type ContinueWait = Pin<Box<dyn Future<Output = Continue> + Send>>;

/// What becomes of a body that is held back.
enum Continue {
    Send,
    /// The final response has come: the body is never sent.
    Never,
}

/// The content of a request, streamed from its client.
pub struct ClientContent {
    pub body: TimeoutBody,
    /// With `Expect: 100-continue`, the client is not asked for the body before the origin asks for
    /// it.
    hold: Option<ContinueWait>,
    /// The body was not wanted: the request stays incomplete while its response is read, and ends
    /// with it.
    is_unwanted: bool,
    response_dropped: Option<oneshot::Receiver<Infallible>>,
    pub backpressure: Option<Backpressure>,
    pub charge: Option<MemoryCharge>,
    pub allowance: Option<Arc<ReadAllowance>>,
}

impl ClientContent {
    /// The content of `body`, which is sent at once.
    pub const fn new(body: TimeoutBody) -> Self {
        Self {
            body,
            hold: None,
            is_unwanted: false,
            response_dropped: None,
            backpressure: None,
            charge: None,
            allowance: None,
        }
    }

    /// Holds the body back until `go` is sent, at most for `max_wait`.
    pub fn hold_until(&mut self, go: oneshot::Receiver<()>, max_wait: Duration) {
        self.hold = Some(Box::pin(async move {
            match timeout(max_wait, go).await {
                Ok(Err(_)) => Continue::Never,
                Ok(Ok(())) | Err(_) => Continue::Send,
            }
        }));
    }

    /// For a body that is held back: what is to be kept with the response.
    pub fn response_guard(&mut self) -> Option<ResponseGuard> {
        self.hold.as_ref()?;
        let (guard, dropped) = oneshot::channel();
        self.response_dropped = Some(dropped);
        Some(guard)
    }

    /// The next frame, when the origin has asked for it and can take it.
    pub fn poll_frame(
        &mut self,
        progress: &RequestProgress,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(go) = &mut self.hold {
            self.is_unwanted = matches!(ready!(go.as_mut().poll(cx)), Continue::Never);
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
        progress.add_bytes(self.count(&frame));
        if frame.is_none() || self.body.is_end_stream() {
            progress.note_complete();
            if let Some(backpressure) = &self.backpressure {
                backpressure.note_complete();
            }
        }
        Poll::Ready(frame)
    }

    /// Counts the bytes of a frame, and allows larger reads when there is memory for them.
    fn count(&mut self, frame: &Option<Result<Frame<Bytes>, io::Error>>) -> usize {
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
        bytes
    }
}

impl Drop for ClientContent {
    fn drop(&mut self) {
        if let Some(allowance) = &self.allowance {
            allowance.0.store(false, Ordering::Relaxed);
        }
    }
}
