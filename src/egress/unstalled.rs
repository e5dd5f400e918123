//! A body that must not stall: when its next frame takes longer than a limit, it ends in an error.
//! A timer is armed only while the body really waits. Trailers that are none stay behind.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Sleep, sleep};

use super::trailers;

/// An incoming message body with a bound on how long it may be silent.
#[derive(Debug)]
pub struct Unstalled<B = Incoming> {
    body: B,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> Unstalled<B> {
    pub const fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, timer: None }
    }

    /// The body that is watched.
    pub const fn get_ref(&self) -> &B {
        &self.body
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
            self.timer = None;
            let frame = frame.map(|frame| frame.map(trailers::without_misplaced).map_err(io::Error::other));
            return Poll::Ready(frame);
        }
        let limit = self.limit;
        ready!(self.timer.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
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
