//! A body that must not stall: when its next frame takes longer than a limit, it ends in an error.
//! A timer is begun only where the body really waits. Trailers that are none stay behind.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::trailers;
use crate::runtime::lazy_timer::LazyTimer;

/// An incoming message body with a bound on how long it may be silent.
#[derive(Debug)]
pub struct Unstalled<B = Incoming> {
    body: B,
    limit: Duration,
    silence: LazyTimer,
}

impl<B> Unstalled<B> {
    pub const fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, silence: LazyTimer::new() }
    }

    /// The body that is watched.
    pub const fn get_ref(&self) -> &B {
        &self.body
    }

    /// The same, to be changed.
    pub const fn get_mut(&mut self) -> &mut B {
        &mut self.body
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for Unstalled<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.silence.clear();
            let frame =
                frame.map(|frame| frame.map(trailers::without_misplaced).map_err(io::Error::other));
            return Poll::Ready(frame);
        }
        let limit = self.limit;
        ready!(self.silence.poll(limit, cx));
        let stalled = io::Error::new(io::ErrorKind::TimedOut, format!("no data for {limit:?}"));
        Poll::Ready(Some(Err(stalled)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
