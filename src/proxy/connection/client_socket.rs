//! The stream between a client and what follows its CONNECT.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::client_stream::ClientStream;
use crate::egress::{PlaintextStream, PollReadable};

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

/// What all kinds have in common.
trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl ClientSocket {
    fn stream(&mut self) -> Pin<&mut dyn Duplex> {
        match self {
            Self::Tcp(stream) => Pin::new(stream),
            Self::Tls(stream) => Pin::new(stream),
            Self::Http2(stream) => Pin::new(stream),
        }
    }
}

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

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
            Self::Http2(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
