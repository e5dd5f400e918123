//! The stream to an origin, or to the parent proxy that leads to it.

use std::task::{Context, Poll};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::tls::{PlaintextStream, PollReadable};
use crate::runtime::delegate_io::delegate_io;

/// The stream to an origin.
#[derive(Debug)]
pub enum OriginSocket {
    /// To the origin itself, or by a parent that is spoken to in clear.
    Tcp(TcpStream),
    /// Inside TLS with a parent.
    Tls(PlaintextStream<Box<TlsStream<OriginSocket>>>),
}

delegate_io!(OriginSocket: Tcp Tls);

impl PollReadable for OriginSocket {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Tcp(stream) => stream.poll_readable(cx),
            Self::Tls(stream) => stream.get_ref().poll_readable(cx),
        }
    }
}
