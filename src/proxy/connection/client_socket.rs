//! The stream between a client and what follows its CONNECT.

use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::client_stream::ClientStream;
use crate::egress::{PlaintextStream, PollReadable};
use crate::runtime::delegate_io::delegate_io;

/// A client's own connection to the proxy, by TLS. Boxed: it is large, and moved often.
pub type SecuredClient = PlaintextStream<Box<TlsStream<TcpStream>>>;

impl ClientStream for SecuredClient {
    fn unsent_bytes(&self) -> Option<u32> {
        self.get_ref().get_ref().0.unsent_bytes()
    }

    fn has_closing_message(&self) -> bool {
        true
    }
}

/// The client's side of a CONNECT.
#[derive(Debug)]
pub enum ClientSocket {
    /// The client's own connection.
    Tcp(TcpStream),
    /// The same, by TLS.
    Tls(SecuredClient),
    /// A stream of an HTTP/2 connection (RFC 9113 §8.5).
    Http2(TokioIo<Upgraded>),
}

delegate_io!(ClientSocket: Tcp Tls Http2);

impl ClientStream for ClientSocket {
    fn unsent_bytes(&self) -> Option<u32> {
        match self {
            Self::Tcp(stream) => stream.unsent_bytes(),
            Self::Tls(stream) => stream.unsent_bytes(),
            // Its window bounds what waits.
            Self::Http2(_) => None,
        }
    }

    fn has_closing_message(&self) -> bool {
        matches!(self, Self::Http2(_) | Self::Tls(_))
    }
}

impl PollReadable for ClientSocket {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(stream) => stream.poll_readable(cx),
            Self::Tls(stream) => stream.get_ref().poll_readable(cx),
            // Only a read tells.
            Self::Http2(_) => Poll::Ready(()),
        }
    }
}
