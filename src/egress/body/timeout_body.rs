//! An incoming body with a timeout: when its next frame takes longer than the limit, it ends in an
//! error. Trailers that may not be trailers are removed.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::trailers;
use super::whole_body::WholeBody;
use crate::runtime::lazy_timer::LazyTimer;

/// A message body with a limit on how long it may be silent. The timer starts only when the body
/// has to wait.
#[derive(Debug)]
pub struct TimeoutBody<B = WholeBody> {
    body: B,
    limit: Duration,
    timer: LazyTimer,
}

impl TimeoutBody {
    /// The body of a client's request in `version`.
    pub const fn of_request(body: Incoming, version: Version, limit: Duration) -> Self {
        Self::new(WholeBody::new(body, version), limit)
    }
}

impl<B> TimeoutBody<B> {
    /// A body whose frames may each take as long as `limit`.
    pub const fn new(body: B, limit: Duration) -> Self {
        Self { body, limit, timer: LazyTimer::new() }
    }

    /// The body inside.
    pub const fn get_ref(&self) -> &B {
        &self.body
    }

    /// The body inside, mutable.
    pub const fn get_mut(&mut self) -> &mut B {
        &mut self.body
    }
}

impl<B> Body for TimeoutBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.timer.clear();
            return Poll::Ready(
                frame.map(|frame| frame.map(trailers::without_misplaced).map_err(io::Error::other)),
            );
        }
        let limit = self.limit;
        ready!(self.timer.poll(limit, cx));
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
