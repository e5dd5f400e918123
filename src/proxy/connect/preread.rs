//! Holds back the first bytes of a tunnel until the server name in them has been checked: TLS for
//! another host than that of the CONNECT goes no further.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::sni::{ClientHello, Mismatch, Named, check_tunnelled};
use super::sniff::TunnelStart;
use super::tunnel::read_ready;
use crate::types::origin::Host;

/// Bytes read at a time.
const READ_BYTES: usize = 4096;

/// Reads the first bytes of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Preread<'a> {
    /// The host of the CONNECT.
    pub host: &'a Host,
    /// From the first byte of a ClientHello to its last (`limits.handshake_timeout`).
    pub handshake_timeout: Duration,
}

impl Preread<'_> {
    /// Reads the client's first bytes after `first`, and returns all that may be sent to the
    /// origin. What is not TLS has no name to check, and may be sent. Until the client sends
    /// something there is nothing to check: in some protocols the server begins.
    ///
    /// # Errors
    ///
    /// A [`Mismatch`] (see [`mismatch`]), a timeout, the end inside a ClientHello, or that of
    /// `client`.
    pub async fn read(&self, mut client: impl Append, mut first: Vec<u8>) -> io::Result<Vec<u8>> {
        if first.is_empty() && client.append(&mut first).await? == 0 {
            return Ok(first);
        }
        let checked = timeout(self.handshake_timeout, self.check(&mut client, &mut first)).await;
        checked
            .map_err(|_| io::Error::new(ErrorKind::TimedOut, "the ClientHello is incomplete"))??;
        Ok(first)
    }

    async fn check(&self, client: &mut impl Append, first: &mut Vec<u8>) -> io::Result<()> {
        let mut hello = ClientHello::new();
        loop {
            let named = match TunnelStart::of(first) {
                TunnelStart::Tls => hello.read(first).map_err(io::Error::other)?,
                // It has no extensions, and so no name.
                TunnelStart::Ssl2 => Some(Named(None)),
                TunnelStart::Other => return Ok(()),
                TunnelStart::Incomplete => None,
            };
            if let Some(Named(name)) = named {
                return check_tunnelled(self.host, name.as_deref()).map_err(io::Error::other);
            }
            if client.append(first).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The mismatch that `error` of a tunnel is, or the error again.
///
/// # Errors
///
/// `error`, if it is none.
pub fn mismatch(error: io::Error) -> Result<Mismatch, io::Error> {
    error.downcast()
}

/// The client's side of a tunnel, of which the first bytes are read.
pub trait Append: Send {
    /// Appends the next bytes, and returns their number; 0 is the end.
    fn append(&mut self, bytes: &mut Vec<u8>) -> impl Future<Output = io::Result<usize>> + Send;
}

impl Append for &TcpStream {
    async fn append(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            self.readable().await?;
            let mut buffer = [0; READ_BYTES];
            let count = read_ready(self, |from| Ok(rustix::io::read(from, &mut buffer)?))?;
            if let Some(count) = count {
                bytes.extend_from_slice(&buffer[..count]);
                return Ok(count);
            }
        }
    }
}

impl<S: AsyncRead + Send> Append for &mut ReadHalf<S> {
    async fn append(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        bytes.reserve(READ_BYTES);
        self.read_buf(bytes).await
    }
}
