//! Opens HTTP/2 on a stream, with every limit of the connection set.

use std::time::Duration;

use hyper::client::conn::http2::Builder;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::calm_watch::CalmWatch;
use super::connection::{Http2Connection, Http2Stream};
use super::empty_frames::WithoutEmptyFrames;
use super::window::Window;
use crate::egress::config::Revalidation;
use crate::egress::error::Error;
use crate::egress::hyper_error::setup_error;
use crate::egress::limits::{HTTP2_SEND_BUFFER_BYTES, HTTP2_STREAMS_MAX};
use crate::types::origin::Origin;

/// Streams that we have reset and still ignore frames of (RFC 9113 §5.4.2): all clients of a
/// connection may leave at once.
const HTTP2_RESET_STREAMS_MAX: usize = HTTP2_STREAMS_MAX;

/// Malformed answers on one connection before it is closed.
const HTTP2_MALFORMED_MAX: usize = 100;

/// Silence after which an origin with open streams is asked for a sign of life (RFC 9113 §6.7), and
/// how long it has for it: many exchanges hang on one connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(15);

const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Sets up HTTP/2 on a stream, and returns the first stream of the connection.
pub async fn handshake(
    origin: &Origin,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    window: Window,
    revalidation: Revalidation,
    certificate_requested: bool,
) -> Result<Http2Stream, Error> {
    let (stream, wants_calm) = CalmWatch::new(stream);
    let (sender, connection) = builder(revalidation.config().max_header_bytes, window)
        .handshake(TokioIo::new(WithoutEmptyFrames::new(stream)))
        .await
        .map_err(|error| setup_error(origin, &error))?;
    // The task ends with the last exchange once every sender is dropped.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let opened = (sender, wants_calm);
    Ok(Http2Connection::new(opened, window, revalidation, certificate_requested).stream())
}

/// Sets every limit, and leaves none to hyper's defaults.
fn builder(max_header_bytes: usize, window: Window) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(HTTP2_STREAMS_MAX)
        .initial_stream_window_size(window.bytes())
        // Room for every stream: slow readers never stop the others (RFC 9113 §5.2.2).
        .initial_connection_window_size(window.bytes() * HTTP2_STREAMS_MAX as u32)
        .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES)
        .max_concurrent_reset_streams(HTTP2_RESET_STREAMS_MAX)
        .max_local_error_reset_streams(HTTP2_MALFORMED_MAX)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    builder
}
