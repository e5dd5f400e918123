//! The stream between a client and what follows its CONNECT.

use std::task::{Context, Poll};
use std::time::Duration;

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::egress::{PlaintextStream, PollReadable};
use crate::runtime::delegate_io::delegate_io;

/// A client's own connection to the proxy, by TLS. Boxed: it is large, and moved often.
pub type SecuredClient = PlaintextStream<Box<TlsStream<TcpStream>>>;

impl ClientStream for SecuredClient {
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
    fn is_timed_by_system(&self) -> bool {
        // The client may keep the window of one stream shut, and read others.
        !matches!(self, Self::Http2(_))
    }

    fn has_closing_message(&self) -> bool {
        matches!(self, Self::Http2(_) | Self::Tls(_))
    }
}

impl ClientSocket {
    /// As [`set_write_timeout`], if it is a connection.
    pub fn set_write_timeout(&self, timeout: Duration) {
        match self {
            Self::Tcp(stream) => set_write_timeout(stream, timeout),
            Self::Tls(stream) => set_write_timeout(stream.get_ref().get_ref().0, timeout),
            Self::Http2(_) => {}
        }
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

/// What a connection needs of its stream beside reading and writing.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin {
    /// Whether the system ends it when the client reads nothing ([`set_write_timeout`]).
    fn is_timed_by_system(&self) -> bool {
        true
    }

    /// Whether closing the stream sends a message of its own, such as TLS's.
    fn has_closing_message(&self) -> bool {
        false
    }
}

impl ClientStream for TcpStream {}

/// Has the system end the connection when the client takes nothing of what waits for it for
/// `timeout`: reads and writes then fail. One that reads, however slowly, opens its window again and
/// again, and is waited for (TCP_USER_TIMEOUT, tcp(7); RFC 5482). Where the option is refused, it is
/// done without.
pub fn set_write_timeout(stream: &TcpStream, timeout: Duration) {
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(timeout));
}
