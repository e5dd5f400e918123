//! A response body from an origin, with the connection that brings it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::timeout_body::{TimeoutBody, WholeBody};
use crate::egress::config::{ORIGIN_READ_BYTES, ORIGIN_READ_SMALL_BYTES};
use crate::egress::http1::LargeRead;
use crate::egress::hyper_error::asks_for_calm;
use crate::egress::pool::Lease;
use crate::pace::{RequestFailure, Waited};

/// A body with the lease of its connection: read to its end, the connection returns to the pool;
/// dropped before, it is closed (RFC 9112 §9.5).
#[derive(Debug)]
struct LeasedBody {
    body: WholeBody,
    lease: Option<Lease>,
    /// The error that ended the body, held back until what came before has been sent.
    fault: Option<io::Error>,
}

impl Body for LeasedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(fault) = self.fault.take() {
            return Poll::Ready(Some(Err(fault)));
        }
        let Self { body, lease, .. } = &mut *self;
        let mut poll = |cx: &mut Context<'_>| Pin::new(&mut *body).poll_frame(cx);
        let frame = match lease {
            Some(lease) => lease.transport.poll_driven(cx, poll),
            None => poll(cx),
        };
        match frame {
            // An error ends the client's connection at once: first give it the time to be flushed.
            Poll::Ready(Some(Err(fault))) => {
                let cause = fault.get_ref().and_then(|it| it.downcast_ref());
                let wants_calm = cause.is_some_and(asks_for_calm);
                if let Some(lease) = lease.as_ref().filter(|_| wants_calm) {
                    lease.turn.note_failure(RequestFailure::EnhanceYourCalm);
                }
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

impl Drop for LeasedBody {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

/// The parent proxy that a response came by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Its scheme, host and port.
    pub parent: String,
    /// It was asked in absolute-form, so that the response may be its own.
    pub is_forwarded: bool,
}

/// A response body from an origin.
#[derive(Debug)]
pub struct ResponseBody {
    body: TimeoutBody<LeasedBody>,
    /// Bytes given since the reader was last made to wait.
    given: usize,
    /// Bytes given in all.
    total: usize,
    /// At so many bytes in all, memory for larger reads is asked for.
    asks_at: usize,
    large_read: Option<LargeRead>,
    request_sent_at: Option<Instant>,
}

impl ResponseBody {
    /// Boxed, because it is moved through many functions.
    pub(in crate::egress) fn boxed(
        (body, version): (Incoming, Version),
        limit: Duration,
        lease: Lease,
        large_read: Option<LargeRead>,
        request_sent_at: Option<Instant>,
    ) -> Box<Self> {
        let body = WholeBody::new(body, version);
        let body = LeasedBody { body, lease: Some(lease), fault: None };
        Box::new(Self {
            body: TimeoutBody::new(body, limit),
            given: 0,
            total: 0,
            asks_at: ORIGIN_READ_SMALL_BYTES,
            large_read,
            request_sent_at,
        })
    }

    /// When the origin had the whole request; `None` if it responded before.
    pub const fn request_sent_at(&self) -> Option<Instant> {
        self.request_sent_at
    }

    /// How long the request waited for its turn; `None`: not at all.
    pub fn waited(&self) -> Option<Waited> {
        self.body.get_ref().lease.as_ref()?.turn.waited()
    }

    /// The address of the origin.
    pub fn peer(&self) -> Option<IpAddr> {
        self.body.get_ref().lease.as_ref()?.transport.peer()
    }

    /// The parent that it came by: scheme, host and port.
    pub fn via(&self) -> Option<Via> {
        let lease = self.body.get_ref().lease.as_ref()?;
        let parent = lease.transport.via(lease.turn.origin())?;
        Some(Via { parent, is_forwarded: lease.transport.forwarder().is_some() })
    }

    /// Allows larger reads: the client has taken more than a client that does not read could make
    /// the proxy take. When there is no memory for them, asks again after as much again.
    fn allow_larger_reads(&mut self) {
        let Self { body, large_read, .. } = self;
        let lease = body.get_mut().lease.as_mut();
        let was_granted = lease.is_none_or(|lease| lease.allow_larger_reads(large_read));
        self.asks_at = if was_granted {
            usize::MAX
        } else {
            self.total.saturating_add(ORIGIN_READ_SMALL_BYTES)
        };
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.given >= ORIGIN_READ_BYTES {
            // Yields: what was given is written, and other tasks have a turn, before more is read.
            self.given = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let poll = Pin::new(&mut self.body).poll_frame(cx);
        self.given = match &poll {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.total = self.total.saturating_add(bytes);
                self.given + bytes
            }
            _ => 0,
        };
        if self.total >= self.asks_at {
            self.allow_larger_reads();
        }
        let remaining = self.body.size_hint().exact();
        if self.large_read.as_ref().is_some_and(|read| !read.is_far_from_end(remaining)) {
            self.large_read = None;
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
