//! Holds back the first bytes of a tunnel until the server name in them has been checked: TLS for
//! another host than that of the CONNECT goes no further.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, ReadHalf};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::sni::{ClientHello, Mismatch, Named, check_tunnelled};
use super::sniff::TunnelStart;
use super::tunnel::read_ready;
use crate::egress::PollReadable;
use crate::proxy::FIRST_REQUEST_GRACE;
use crate::proxy::connection::connection_state::ConnectionContext;
use crate::proxy::handle::CurrentProxy;
use crate::runtime::delegate_io::delegate_write;
use crate::types::origin::Host;

/// Bytes read at a time.
const READ_BYTES: usize = 4096;

/// Reads the first bytes of a tunnel.
#[derive(Clone, Copy, Debug)]
pub struct Preread<'a> {
    /// The host of the CONNECT.
    pub host: &'a Host,
    /// From the first byte of a ClientHello to its last.
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

/// Bytes that are read before the protocol is decided. The first alone would do, but hyper, once it
/// has part of a head, waits for the empty line, which other protocols never send.
const FIRST_BYTES_MAX: usize = 4096;

/// Why there are no first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBytes {
    /// The client has sent none in time.
    TimedOut,
    /// The client has left, or the proxy shuts down.
    Ended,
}

/// The first bytes that a client sends.
///
/// # Errors
///
/// Why there are none.
pub async fn first_bytes<S: AsyncRead + Unpin>(
    stream: &mut S,
    handshake_timeout: Duration,
    shutdown: &CancellationToken,
) -> Result<Vec<u8>, NoBytes> {
    let read = tokio::select! {
        read = timeout(handshake_timeout, poll_fn(|cx| poll_first(stream, cx))) => read,
        // No request is under way, but one may be about to come.
        () = async { shutdown.cancelled().await; sleep(FIRST_REQUEST_GRACE).await } => {
            return Err(NoBytes::Ended);
        }
    };
    match read.map_err(|_| NoBytes::TimedOut)? {
        Ok(first) if !first.is_empty() => Ok(first),
        _ => Err(NoBytes::Ended),
    }
}

/// Reads once. While the client sends nothing, no buffer is held: many clients may be silent.
fn poll_first(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
) -> Poll<io::Result<Vec<u8>>> {
    let mut buffer = [0; FIRST_BYTES_MAX];
    let mut first = ReadBuf::new(&mut buffer);
    ready!(Pin::new(stream).poll_read(cx, &mut first))?;
    Poll::Ready(Ok(first.filled().to_vec()))
}

/// A stream whose first bytes have been read already, and are read again.
#[derive(Debug)]
pub struct Rewind<S> {
    first: Vec<u8>,
    /// How many of them have been read again.
    read: usize,
    stream: S,
}

impl<S> Rewind<S> {
    /// Reads `first`, then `stream`.
    pub const fn new(first: Vec<u8>, stream: S) -> Self {
        Self { first, read: 0, stream }
    }

    /// The stream itself, which may not know of the first bytes.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewind<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = &self.first[self.read..];
        if left.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let count = left.len().min(buf.remaining());
        buf.put_slice(&left[..count]);
        self.read += count;
        if self.read == self.first.len() {
            // They are kept no longer than needed, while the connection may idle for long.
            (self.first, self.read) = (Vec::new(), 0);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: PollReadable> PollReadable for Rewind<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.first.is_empty() { self.stream.poll_readable(cx) } else { Poll::Ready(()) }
    }
}

delegate_write!(Rewind);

/// The name in the ClientHello that begins with `first`; `first` gets all that was read.
pub async fn read_hello(mut stream: &TcpStream, first: &mut Vec<u8>) -> io::Result<Named> {
    let mut hello = ClientHello::new();
    loop {
        if let Some(named) = hello.read(first).map_err(io::Error::other)? {
            return Ok(named);
        }
        if stream.append(first).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Counts a handshake of which there is no ClientHello, as inside a CONNECT; without `read`, it was
/// not whole in time.
pub fn note_no_hello(
    read: Option<io::Result<Named>>,
    authority: &str,
    context: &ConnectionContext,
    current: &CurrentProxy,
) {
    let error = read.and_then(Result::err);
    current.load().metrics.tls.count_failure(error.as_ref());
    let client = context.client.address;
    match error {
        Some(error) => info!(%client, "no TLS handshake with {authority}: {error}"),
        None => debug!(%client, "no whole ClientHello for {authority} in time"),
    }
}
