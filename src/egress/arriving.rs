//! An answer's body as it comes back from an origin, with the connection that brings it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::bulk::Bulk;
use super::pool::Lease;
use super::unstalled::Unstalled;
use crate::egress::limits::{ORIGIN_READ_BYTES, ORIGIN_READ_SMALL_BYTES};

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
    /// Bytes given since whoever reads was last made to wait.
    given: usize,
    /// Bytes given in all, and with how many more memory is asked for that larger pieces take.
    total: usize,
    grows_at: usize,
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
        Box::new(Self {
            body: Unstalled::new(body, limit),
            given: 0,
            total: 0,
            grows_at: ORIGIN_READ_SMALL_BYTES,
            bulk,
            asked_at,
        })
    }

    /// The client has taken what a client that reads nothing could make us take: what follows may be read in larger
    /// pieces. Where there is no memory for them, it is asked for once more after as much again.
    fn grow(&mut self) {
        let Self { body, bulk, .. } = self;
        let lease = body.get_mut().lease.as_mut();
        let grown = lease.is_none_or(|lease| lease.grow(bulk));
        self.grows_at =
            if grown { usize::MAX } else { self.total.saturating_add(ORIGIN_READ_SMALL_BYTES) };
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
        if self.given >= ORIGIN_READ_BYTES {
            // What has been given is written, and everybody else has a turn, before there is more.
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
        if self.total >= self.grows_at {
            self.grow();
        }
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
