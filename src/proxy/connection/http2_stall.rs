//! A bound on how long a client of HTTP/2 may leave a response untaken. Below HTTP/1 the wire sees a
//! client that does not read; here streams have windows of their own, and a stream that the client
//! keeps closed would hold its origin connection for as long as the client likes.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::sleep;

use crate::proxy::exchange::body::Body;
use crate::proxy::limits::H2_STREAMS_MAX;
use crate::runtime::clock;

/// The responses of one connection.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Vec<Weak<Mutex<State>>>>);

/// A response body that is watched.
#[derive(Debug)]
pub struct Watched(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// `None` once it has been given up.
    body: Option<Body>,
    /// Since when it is the client's turn; `None` while the origin is waited for.
    offered: Option<Instant>,
}

impl Watch {
    pub fn over(&self, body: Body) -> Watched {
        let state =
            Arc::new(Mutex::new(State { body: Some(body), offered: Some(clock::monotonic()) }));
        let mut watched = locked(&self.0);
        if watched.len() >= 4 * H2_STREAMS_MAX as usize {
            watched.retain(|state| state.strong_count() > 0);
        }
        watched.push(Arc::downgrade(&state));
        Watched(state)
    }

    /// Gives up, for as long as it runs, what nobody has taken for `limit`.
    pub async fn run(&self, limit: Duration) {
        loop {
            sleep(limit).await;
            self.give_up(limit);
        }
    }

    fn give_up(&self, limit: Duration) {
        let now = clock::monotonic();
        locked(&self.0).retain(|state| {
            let Some(state) = state.upgrade() else { return false };
            let mut state = locked(&state);
            let is_stuck = state.offered.is_some_and(|since| now.duration_since(since) >= limit);
            if is_stuck {
                // With it go the origin's connection and the exchange.
                state.body = None;
            }
            state.body.is_some()
        });
    }
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let mut state = locked(&self.0);
        let Some(body) = &mut state.body else {
            let given_up =
                io::Error::new(io::ErrorKind::TimedOut, "the client did not take the response");
            return Poll::Ready(Some(Err(given_up)));
        };
        let frame = http_body::Body::poll_frame(Pin::new(body), cx);
        state.offered = frame.is_ready().then(clock::monotonic);
        frame
    }

    fn is_end_stream(&self) -> bool {
        locked(&self.0).body.as_ref().is_some_and(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        locked(&self.0).body.as_ref().map_or_else(SizeHint::default, http_body::Body::size_hint)
    }
}

/// What is behind the lock stays right even if somebody panicked with it.
fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn what_nobody_takes_is_given_up_and_what_is_taken_is_not() {
        let watch = Watch::default();
        let (mut left, taken) = (watch.over(Body::own("left")), watch.over(Body::own("taken")));
        watch.give_up(Duration::from_secs(60));
        assert_eq!(taken.collect().await.unwrap().to_bytes(), "taken");
        watch.give_up(Duration::ZERO);
        let error = left.frame().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_list_of_responses_is_bounded() {
        let watch = Watch::default();
        for _ in 0..10_000 {
            watch.over(Body::empty());
        }
        assert!(locked(&watch.0).len() <= 4 * H2_STREAMS_MAX as usize);
    }
}
