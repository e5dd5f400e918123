//! HTTP/2 with a client (RFC 9113): inside an intercepted connection, or on its own to the proxy.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::body::{self, Body};
use super::connection_state::{ConnectionContext, ConnectionState, wait_for_drain};
use super::service::{Limits, Service, respond_to};
use crate::clients::MemoryPermit;
use crate::egress::config::HTTP2_SEND_BUFFER_BYTES;
use crate::proxy::{
    H2_CONNECTION_WINDOW_BYTES, H2_STREAM_WINDOW_BYTES, H2_STREAMS_FEW, H2_STREAMS_MAX,
};
use crate::runtime::clock;
use crate::runtime::lock::Lock;

/// The concurrent streams of a connection. A stream that is refused takes memory until its client
/// has read the rejection, so memory is reserved for all of them.
struct Streams {
    max: u32,
    _permit: Option<MemoryPermit>,
}

impl Streams {
    fn of(context: &ConnectionContext, service: &impl Service) -> Self {
        const MORE: usize = (H2_STREAMS_MAX - H2_STREAMS_FEW) as usize * body::REFUSED_STREAM_BYTES;
        let permit = service.memory().reserve_extra(&context.client.key(), MORE);
        Self {
            max: if permit.is_some() { H2_STREAMS_MAX } else { H2_STREAMS_FEW },
            _permit: permit,
        }
    }
}

/// Serves HTTP/2 on `stream` until either side ends it, or the shutdown lets the requests under way
/// be the last.
pub async fn serve<S, P>(stream: S, context: Arc<ConnectionContext>, service: P)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    P: Service,
{
    let Limits { timeouts, head_max, .. } = service.limits();
    let streams = Streams::of(&context, &service);
    let responder_context = Arc::clone(&context);
    let stall_watch = Arc::new(StallWatch::default());
    let responder_watch = Arc::clone(&stall_watch);
    let hyper_service = service_fn(move |request: Request<Incoming>| {
        let context = Arc::clone(&responder_context);
        let response = respond_to(request.into(), context, service.clone(), None);
        let stall_watch = Arc::clone(&responder_watch);
        async move { response.await.map(|response| response.map(|body| stall_watch.watch(body))) }
    });
    let mut connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(streams.max)
        .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(head_max).unwrap_or(u32::MAX))
        .keep_alive_interval(timeouts.idle)
        .serve_connection(TokioIo::new(stream), hyper_service);
    let until_over = async {
        tokio::select! {
            () = wait_for_drain(&context) => {}
            () = wait_until_unused(&context.state, timeouts.idle) => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => {
            context.state.end_input();
            ended
        }
        () = stall_watch.run(timeouts.write) => Ok(()),
        () = until_over => {
            Pin::new(&mut connection).graceful_shutdown();
            // A stream whose window the client keeps closed would never end.
            timeout(timeouts.write, &mut connection).await.unwrap_or(Ok(()))
        }
    };
    context.state.end_streams().await;
    if let Err(error) = ended {
        debug!(client = %context.client.address, "an HTTP/2 connection ended: {error}");
    }
}

/// Returns when no request came for `limit`, and none is under way. hyper has no limit of its
/// own on the time without a stream.
async fn wait_until_unused(state: &ConnectionState, limit: Duration) {
    let mut before = usize::MAX;
    loop {
        sleep(limit).await;
        let now = state.requests();
        if state.is_idle() && now == before {
            return;
        }
        before = now;
    }
}

// Limits how long an HTTP/2 client may leave a response unread. In HTTP/1, `client_io` sees a
// client that does not read. In HTTP/2 each stream has a flow-control window of its own (RFC 9113
// §5.2), and a stream whose window the client keeps closed would hold its connection to the origin
// for as long as the client likes.

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
