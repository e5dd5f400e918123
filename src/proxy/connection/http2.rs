//! HTTP/2 with a client (RFC 9113): inside an intercepted connection, or on its own to the proxy.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::http2_stall::StallWatch;
use super::responder::respond_to;
use super::service::{Limits, Service};
use crate::clients::MemoryPermit;
use crate::egress::config::HTTP2_SEND_BUFFER_BYTES;
use crate::proxy::connection::state::connection_context::ConnectionContext;
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::connection::state::drain::wait_for_drain;
use crate::proxy::connection::state::footprint;
use crate::proxy::limits::{
    H2_CONNECTION_WINDOW_BYTES, H2_STREAM_WINDOW_BYTES, H2_STREAMS_FEW, H2_STREAMS_MAX,
};

/// The concurrent streams of a connection. A stream that is refused takes memory until its client
/// has read the rejection, so memory is reserved for all of them.
struct Streams {
    max: u32,
    _permit: Option<MemoryPermit>,
}

impl Streams {
    fn of(context: &ConnectionContext, service: &impl Service) -> Self {
        const MORE: usize =
            (H2_STREAMS_MAX - H2_STREAMS_FEW) as usize * footprint::REFUSED_STREAM_BYTES;
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
