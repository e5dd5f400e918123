//! A client's own connection, by the protocol of its first bytes.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, info};

use super::connection::client_socket::SecuredClient;
use super::connection::connection_state::{ConnectionContext, wait_for_drain};
use super::connection::{body, http2, serve};
use super::destination::host_of;
use super::handle::CurrentProxy;
use super::listener_tls::ListenerTls;
use super::observe::request_metrics::{ClientProtocol, ListenerKind};
use super::rejection::Rejection;
use super::socks;
use crate::runtime::box_future;
use crate::types::origin::{Origin, Scheme};

/// Bytes by which a protocol is known.
const FIRST_BYTES: usize = 3;

/// The type of a TLS record of a handshake (RFC 8446 §5.1).
const HANDSHAKE: u8 = 0x16;

/// Serves a client's connection to the proxy, from its first byte to its last, in the protocol that
/// the client speaks. With `rejection`, that is the response to every request.
pub async fn serve_client(
    stream: TcpStream,
    context: Arc<ConnectionContext>,
    current: CurrentProxy,
    rejection: Option<Rejection>,
) {
    let (metrics, idle) = {
        let proxy = current.load();
        (Arc::clone(&proxy.metrics), proxy.limits.timeouts.idle)
    };
    metrics.connections.count_accepted(ListenerKind::Proxy);
    let first = tokio::select! {
        // What was sent before the shutdown is served.
        biased;
        first = timeout(idle, detect(&stream)) => first.ok().flatten(),
        () = wait_for_drain(&context) => None,
    };
    metrics
        .connections
        .count_protocol(first.map_or(ClientProtocol::None, DetectedProtocol::counted));
    drop(metrics);
    match first {
        Some(DetectedProtocol::Socks5) => {
            box_future(|| socks::serve(stream, context, current, rejection.is_some())).await;
        }
        Some(DetectedProtocol::Http2) if rejection.is_none() => {
            box_future(|| serve_http2(stream, context, current)).await;
        }
        Some(DetectedProtocol::Tls) if rejection.is_none() && is_tls_served(&current) => {
            box_future(|| serve_tls(stream, context, current)).await;
        }
        // A rejection is short, and the last thing that is sent: that of HTTP/1 is enough.
        Some(DetectedProtocol::Http1 | DetectedProtocol::Http2 | DetectedProtocol::Tls) => {
            serve(stream, context, current, rejection).await
        }
        None => {}
    }
}

/// A protocol that a client may speak to the proxy. Any other is refused as HTTP/1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DetectedProtocol {
    Http1,
    /// In clear, with prior knowledge (RFC 9113 §3.3).
    Http2,
    Socks5,
    /// HTTP/1 or HTTP/2 inside TLS, where the settings have it.
    Tls,
}

impl DetectedProtocol {
    /// By the first bytes, which are not all to be expected in one piece. The method of HTTP/2's
    /// preface is reserved for it (RFC 9113 §11.6).
    fn of(first: &[u8]) -> Self {
        match first {
            [socks::VERSION, ..] => Self::Socks5,
            [HANDSHAKE, ..] => Self::Tls,
            [b'P', b'R', b'I', ..] => Self::Http2,
            _ => Self::Http1,
        }
    }

    const fn counted(self) -> ClientProtocol {
        match self {
            Self::Http1 => ClientProtocol::Http1,
            Self::Http2 => ClientProtocol::Http2,
            Self::Socks5 => ClientProtocol::Socks5,
            Self::Tls => ClientProtocol::Tls,
        }
    }
}

/// The protocol of the first bytes that the client sends, which are left to be read. `None`: it
/// sends none.
async fn detect(stream: &TcpStream) -> Option<DetectedProtocol> {
    let mut first = [0; FIRST_BYTES];
    let count = stream.peek(&mut first).await.ok()?;
    (count > 0).then(|| DetectedProtocol::of(&first[..count]))
}

fn is_tls_served(current: &CurrentProxy) -> bool {
    !matches!(current.load().listener_tls, ListenerTls::Off)
}

/// Serves HTTP inside TLS, in the version that the handshake has chosen (RFC 7301).
async fn serve_tls(stream: TcpStream, context: Arc<ConnectionContext>, current: CurrentProxy) {
    let limit = current.load().handshake_timeout;
    let client = context.client.address;
    let stream = match timeout(limit, accept_tls(stream, &current)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            info!(%client, "the TLS handshake with a client of the proxy failed: {error}");
            return;
        }
        Err(_) => return debug!(%client, "a TLS handshake took longer than {limit:?}"),
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = SecuredClient::new(Box::new(stream));
    if is_http2 {
        box_future(|| serve_http2(stream, context, current)).await;
    } else {
        box_future(|| serve(stream, context, current, None)).await;
    }
}

async fn accept_tls(stream: TcpStream, current: &CurrentProxy) -> io::Result<TlsStream<TcpStream>> {
    let local = stream.local_addr()?.ip().to_canonical();
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let (listener_tls, leaves) = {
        let proxy = current.load();
        (proxy.listener_tls.clone(), Arc::clone(&proxy.leaves))
    };
    let config = match listener_tls {
        ListenerTls::Own(config, _) => config,
        ListenerTls::Leaf => {
            let hello = start.client_hello();
            let named = hello.server_name().map(|name| Origin::from_authority(Scheme::Https, name));
            let host = match named {
                Some(Ok(named)) => named.host().clone(),
                _ => host_of(local),
            };
            leaves.server_config(&host).await.map_err(io::Error::other)?
        }
        ListenerTls::Off => return Err(ErrorKind::ConnectionAborted.into()),
    };
    start.into_stream(config).await
}

/// Serves HTTP/2 with the memory that its streams may take. Without memory for them the connection
/// is closed.
async fn serve_http2<S>(stream: S, context: Arc<ConnectionContext>, current: CurrentProxy)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let permit = current.load().admission.reserve_memory(&context.client, body::MULTIPLEXED_BYTES);
    match permit {
        Ok(permit) => {
            http2::serve(stream, context, current).await;
            drop(permit);
        }
        Err(reason) => {
            debug!(client = %context.client.address, "an HTTP/2 connection is closed: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_is_known_by_its_first_bytes() {
        for (first, expected) in [
            (&b"\x05\x01\x00"[..], DetectedProtocol::Socks5),
            (b"\x05", DetectedProtocol::Socks5),
            (b"PRI", DetectedProtocol::Http2),
            (b"\x16\x03\x01", DetectedProtocol::Tls),
            (b"PRO", DetectedProtocol::Http1),
            (b"P", DetectedProtocol::Http1),
            (b"GET", DetectedProtocol::Http1),
            (b"\x04\x01", DetectedProtocol::Http1),
        ] {
            assert_eq!(DetectedProtocol::of(first), expected, "{}", first.escape_ascii());
        }
    }
}
