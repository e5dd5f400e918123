//! Limits how long an HTTP/2 client may leave a response unread. In HTTP/1, `client_io` sees a
//! client that does not read. In HTTP/2 each stream has a flow-control window of its own (RFC 9113
//! §5.2), and a stream whose window the client keeps closed would hold its connection to the origin
//! for as long as the client likes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::sleep;

use crate::proxy::connection::state::body::Body;
use crate::proxy::limits::H2_STREAMS_MAX;
use crate::runtime::clock;
use crate::runtime::lock::Lock;

/// The responses under way on one connection.
#[derive(Debug, Default)]
pub struct StallWatch(Lock<Vec<Weak<Lock<State>>>>);

/// A response body that is watched.
#[derive(Debug)]
pub struct WatchedBody(Arc<Lock<State>>);

#[derive(Debug)]
struct State {
    /// `None` once the response has been aborted.
    body: Option<Body>,
    /// Since when the client may read; `None` while the origin's next bytes are waited for.
    offered: Option<Instant>,
}

impl StallWatch {
    /// Watches `body`.
    pub fn watch(&self, body: Body) -> WatchedBody {
        let state =
            Arc::new(Lock::new(State { body: Some(body), offered: Some(clock::monotonic()) }));
        let mut watched = self.0.lock();
        if watched.len() >= 4 * H2_STREAMS_MAX as usize {
            watched.retain(|state| state.strong_count() > 0);
        }
        watched.push(Arc::downgrade(&state));
        WatchedBody(state)
    }

    /// Aborts each response that the client has not read from for `limit`. Never returns.
    pub async fn run(&self, limit: Duration) {
        loop {
            sleep(limit).await;
            self.abort_stalled(limit);
        }
    }

    fn abort_stalled(&self, limit: Duration) {
        let now = clock::monotonic();
        self.0.lock().retain(|state| {
            let Some(state) = state.upgrade() else { return false };
            let mut state = state.lock();
            let is_stuck = state.offered.is_some_and(|since| now.duration_since(since) >= limit);
            if is_stuck {
                // This also drops the connection to the origin, and ends the request.
                state.body = None;
            }
            state.body.is_some()
        });
    }
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut state = self.0.lock();
        let Some(body) = &mut state.body else {
            let aborted =
                io::Error::new(io::ErrorKind::TimedOut, "the client did not take the response");
            return Poll::Ready(Some(Err(aborted)));
        };
        let frame = http_body::Body::poll_frame(Pin::new(body), cx);
        state.offered = frame.is_ready().then(clock::monotonic);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().body.as_ref().is_some_and(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_response_is_aborted_only_if_the_client_does_not_read_it() {
        let watch = StallWatch::default();
        let (mut left, taken) = (watch.watch(Body::own("left")), watch.watch(Body::own("taken")));
        watch.abort_stalled(Duration::from_secs(60));
        assert_eq!(taken.collect().await.unwrap().to_bytes(), "taken");
        watch.abort_stalled(Duration::ZERO);
        let error = left.frame().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_list_of_responses_is_bounded() {
        let watch = StallWatch::default();
        for _ in 0..10_000 {
            watch.watch(Body::empty());
        }
        assert!(watch.0.lock().len() <= 4 * H2_STREAMS_MAX as usize);
    }
}
