//! HTTP/2 inside an intercepted connection (RFC 9113).

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

use crate::clients::Held;
use crate::egress::limits::HTTP2_SEND_BUFFER_BYTES;
use crate::proxy::connection::Limits;
use crate::proxy::connection::http1::answer;
use crate::proxy::connection::http2_stall::Watch;
use crate::proxy::exchange::connection_context::Channel;
use crate::proxy::exchange::connection_state::ConnectionState;
use crate::proxy::exchange::drain::drain_begins;
use crate::proxy::exchange::footprint;
use crate::proxy::limits::{
    H2_CONNECTION_WINDOW_BYTES, H2_STREAM_WINDOW_BYTES, H2_STREAMS_FEW, H2_STREAMS_MAX,
};

/// How many requests may be under way at once on one connection: each that is refused is held until its client has taken
/// that, so there is memory for all of them.
struct Streams {
    max: u32,
    _held: Option<Held>,
}

impl Streams {
    fn of(channel: &Channel) -> Self {
        const MORE: usize =
            (H2_STREAMS_MAX - H2_STREAMS_FEW) as usize * footprint::REFUSED_STREAM_BYTES;
        let held = channel.proxy.load().door.memory().more(&channel.client.key(), MORE);
        Self { max: if held.is_some() { H2_STREAMS_MAX } else { H2_STREAMS_FEW }, _held: held }
    }
}

/// Serves `stream` until either side has had enough of it, or the channel's stop lets the requests
/// under way be the last.
pub async fn serve<S>(stream: S, channel: Arc<Channel>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Limits { deadlines, head_max, .. } = channel.proxy.load().limits;
    let streams = Streams::of(&channel);
    let asked_by = Arc::clone(&channel);
    let watch = Arc::new(Watch::default());
    let watching = Arc::clone(&watch);
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = answer(request.into(), Arc::clone(&asked_by), None);
        let watch = Arc::clone(&watching);
        async move { answered.await.map(|response| response.map(|body| watch.over(body))) }
    });
    let mut connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(streams.max)
        .initial_stream_window_size(H2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(H2_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_header_list_size(u32::try_from(head_max).unwrap_or(u32::MAX))
        .keep_alive_interval(deadlines.idle)
        .serve_connection(TokioIo::new(stream), service);
    let enough = async {
        tokio::select! {
            () = drain_begins(&channel) => {}
            () = unused(&channel.state, deadlines.idle) => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => {
            channel.state.end_input();
            ended
        }
        () = watch.run(deadlines.write) => Ok(()),
        () = enough => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            // A stream that the client keeps closed would not let it end.
            timeout(deadlines.write, &mut connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(client = %channel.client.address, "an HTTP/2 connection ended: {error}");
    }
}

/// Returns when no request has come and none is under way for so long. The engine has no bound on
/// how long a connection may be without a stream.
async fn unused(state: &ConnectionState, limit: Duration) {
    let mut before = usize::MAX;
    loop {
        sleep(limit).await;
        let now = state.exchanges();
        if state.is_idle() && now == before {
            return;
        }
        before = now;
    }
}
