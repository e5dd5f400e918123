//! One client's connection, from the first octet to the last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::bad_syntax;
use super::reception::Reception;
use crate::limits::{LINGER, LINGER_OCTETS_MAX};
use crate::proxy::{Body, Channel, Control, Deadlines, Proxy, Wire};

/// The bounds of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadlines: Deadlines,
    /// Octets of a request's head.
    pub head_max: usize,
    pub fields_max: usize,
}

/// Serves `stream` until either side has had enough of it, or `stop` lets the request under way be
/// the last.
pub async fn serve(
    stream: std::net::TcpStream,
    client: SocketAddr,
    reception: Reception,
    proxy: Arc<Proxy>,
    limits: Limits,
    stop: CancellationToken,
) {
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let control = Arc::new(Control::default());
    let channel = Arc::new(Channel { client: client.ip().to_canonical(), control: Arc::clone(&control) });
    let reception = Arc::new(reception);
    let service = service_fn(|request: Request<Incoming>| {
        answer(request, Arc::clone(&proxy), Arc::clone(&channel), Arc::clone(&reception))
    });
    let wire = Wire::new(stream, Arc::clone(&control), limits.deadlines);
    let mut connection = http1::Builder::new()
        .half_close(true)
        .preserve_header_case(true)
        // The wire has the deadlines: the engine's own would also count the time between requests.
        .header_read_timeout(None)
        .max_headers(limits.fields_max)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max)
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            (&mut connection).await
        }
    };
    let answer = ended.err().and_then(|error| {
        debug!(client = %channel.client, "a connection ended: {error}");
        bad_syntax::answer(&error, &control)
    });
    // `None` after an upgrade: then the stream belongs to the tunnel.
    let Some(parts) = connection.into_parts() else { return };
    let explained = answer.map(|explain| explain(&parts.read_buf));
    close(parts.io.into_inner().into_inner(), explained, control.may_have_left_unread()).await;
}

async fn answer(
    request: Request<Incoming>,
    proxy: Arc<Proxy>,
    channel: Arc<Channel>,
    reception: Arc<Reception>,
) -> Result<Response<Body>, Infallible> {
    Ok(match &reception.turned_away {
        None => proxy.handle(request, &channel).await,
        Some(refusal) => crate::proxy::turn_away(refusal, &request),
    })
}

/// Closes in stages, so that the last answer survives: a reset caused by octets that nobody read
/// would take it away again (RFC 9112 §9.6).
async fn close(mut stream: TcpStream, answer: Option<Vec<u8>>, maybe_unread: bool) {
    if let Some(answer) = &answer {
        let _ = timeout(LINGER, stream.write_all(answer)).await;
    }
    let _ = stream.shutdown().await;
    if answer.is_some() || maybe_unread {
        let _ = timeout(LINGER, discard(&mut stream)).await;
    }
}

async fn discard(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    let mut left = LINGER_OCTETS_MAX;
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        left = left.saturating_sub(count);
        if left == 0 {
            return;
        }
    }
}
