//! A stream whose first bytes have been read already, and are read again.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::egress::PollReadable;

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

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewind<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
