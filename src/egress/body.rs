//! The bodies of both directions: what goes out to an origin, and what comes back with the
//! connection that brings it.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http::header::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::bulk::Bulk;
use super::pool::Lease;
use super::progress::Progress;
use super::unstalled::Unstalled;
use crate::limits::ORIGIN_READ_OCTETS;

/// Waits until the origin wants the body, or has answered without it.
type Hold = Pin<Box<dyn Future<Output = Wanted> + Send>>;

/// What a held body is to do.
enum Wanted {
    Body,
    /// The origin has given its final answer: the body is never asked for.
    Nothing,
}

/// Held by whoever has the answer; its drop tells a body that was not wanted that all is over.
pub type Answered = oneshot::Sender<Infallible>;

/// Hears the interim responses to a request (RFC 9110 §15.2), where these are read: over HTTP/1.1.
pub trait Listener: Send + Sync {
    fn hear(&self, status: StatusCode, fields: &HeaderMap);
}

/// A request body on its way out, and who is to know how its exchange goes. Most requests have none.
pub struct Outgoing {
    streamed: Option<Box<Streamed>>,
    progress: Arc<Progress>,
    listener: Option<Arc<dyn Listener>>,
}

/// A client's body.
struct Streamed {
    body: Unstalled,
    /// With `Expect: 100-continue`, the body is not asked for before the origin wants it.
    hold: Option<Hold>,
    /// Not wanted: the request stays incomplete while its answer is read, and ends with it.
    unwanted: bool,
    answered: Option<oneshot::Receiver<Infallible>>,
}

impl Outgoing {
    /// No body.
    pub fn empty() -> Self {
        Self { streamed: None, progress: Arc::new(Progress::new(true)), listener: None }
    }

    /// That of a request which is sent once more: it had none.
    pub(super) fn again(&self) -> Self {
        Self { streamed: None, progress: Arc::clone(&self.progress), listener: self.listener.clone() }
    }

    /// A client's body, streamed as it comes.
    pub fn streamed(body: Unstalled) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let streamed = Streamed { body, hold: None, unwanted: false, answered: None };
        Self { streamed: Some(Box::new(streamed)), progress: Arc::new(Progress::new(false)), listener: None }
    }

    /// Holds the body back until `go` is sent, at most for `patience`: an origin that does not know
    /// the expectation says nothing, and waits for the body. When `go` is dropped, a final answer
    /// came, and the body is not sent any more (RFC 9110 §10.1.1).
    pub fn held_until(mut self, go: oneshot::Receiver<()>, patience: Duration) -> Self {
        if let Some(streamed) = &mut self.streamed {
            streamed.hold = Some(Box::pin(async move {
                match timeout(patience, go).await {
                    Ok(Err(_)) => Wanted::Nothing,
                    Ok(Ok(())) | Err(_) => Wanted::Body,
                }
            }));
        }
        self
    }

    /// Has `listener` hear the interim responses.
    pub fn heard_by(mut self, listener: Arc<dyn Listener>) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Who hears the interim responses, for whoever reads them.
    pub(super) fn take_listener(&mut self) -> Option<Arc<dyn Listener>> {
        self.listener.take()
    }

    /// For a body that is held, what is to be kept with the answer.
    pub(super) fn until_answered(&mut self) -> Option<Answered> {
        let streamed = self.streamed.as_mut().filter(|streamed| streamed.hold.is_some())?;
        let (answered, over) = oneshot::channel();
        streamed.answered = Some(over);
        Some(answered)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.is_end_stream()
    }

    /// Whether the origin is waited for, or the client, and whether the whole body has been taken.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.streamed.as_ref().map(|streamed| &streamed.body);
        f.debug_struct("Outgoing").field("body", &body).finish_non_exhaustive()
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self { streamed: Some(streamed), progress, .. } = &mut *self else { return Poll::Ready(None) };
        let Streamed { body, hold, unwanted, answered } = &mut **streamed;
        if let Some(go) = hold {
            *unwanted = matches!(ready!(go.as_mut().poll(cx)), Wanted::Nothing);
            *hold = None;
        }
        if *unwanted {
            if let Some(answered) = answered {
                let _ = ready!(Pin::new(answered).poll(cx));
            }
            return Poll::Ready(Some(Err(io::Error::other("the origin answered without the body"))));
        }
        let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
            progress.is_clients();
            return Poll::Pending;
        };
        progress.is_origins();
        if frame.is_none() || body.is_end_stream() {
            progress.completed();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.streamed.as_ref().is_none_or(|streamed| streamed.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.streamed.as_ref().map_or_else(|| SizeHint::with_exact(0), |streamed| streamed.body.size_hint())
    }
}

/// A response body, with the lease on the connection it comes from: read to its end, the
/// connection goes back to the pool; dropped before, it is closed (RFC 9112 §9.5).
#[derive(Debug)]
struct Leased {
    body: Incoming,
    lease: Option<Lease>,
    /// How it ended too soon, until what came before is with the client.
    fault: Option<hyper::Error>,
}

impl Body for Leased {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        let Self { body, lease, .. } = &mut *self;
        let mut poll = |cx: &mut Context<'_>| Pin::new(&mut *body).poll_frame(cx);
        let frame = match lease {
            Some(lease) => lease.link.poll_driven(cx, poll),
            None => poll(cx),
        };
        match frame {
            // An error ends the client's connection as it stands: first it is given the time to be flushed.
            Poll::Ready(Some(Err(fault))) => {
                self.fault = Some(fault);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.fault.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// What comes back from an origin.
#[derive(Debug)]
pub struct Arriving {
    body: Unstalled<Leased>,
    /// Octets given since whoever reads was last made to wait.
    given: usize,
    bulk: Option<Bulk>,
    asked_at: Option<Instant>,
}

impl Arriving {
    /// On the heap, as it is passed on from hand to hand.
    pub(super) fn boxed(
        body: Incoming,
        limit: Duration,
        lease: Lease,
        bulk: Option<Bulk>,
        asked_at: Option<Instant>,
    ) -> Box<Self> {
        let body = Leased { body, lease: Some(lease), fault: None };
        Box::new(Self { body: Unstalled::new(body, limit), given: 0, bulk, asked_at })
    }

    /// When the origin had all that there was; none where it answered before.
    pub const fn asked_at(&self) -> Option<Instant> {
        self.asked_at
    }

    /// The address that it comes from.
    pub fn peer(&self) -> Option<IpAddr> {
        self.body.get_ref().lease.as_ref()?.link.peer()
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.given >= ORIGIN_READ_OCTETS {
            // What has been given is written, and everybody else has a turn, before there is more.
            self.given = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        self.given = match &poll {
            Poll::Ready(Some(Ok(frame))) => self.given + frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        if self.bulk.as_ref().is_some_and(|bulk| !bulk.goes_on(self.body.size_hint().exact())) {
            self.bulk = None;
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
