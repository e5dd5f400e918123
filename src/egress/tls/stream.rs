//! A TLS stream that reads without zeroing the buffer first. tokio-rustls zeroes the whole buffer
//! before each read, and hyper offers kilobytes for a head of some hundred bytes. Nor does a read
//! enter rustls when nothing has come: hyper tries several reads for each message.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// The decrypted side of a TLS stream, of a client or a server.
#[derive(Debug)]
pub struct PlaintextStream<S>(S);

/// A stream that can report readiness without being read.
pub trait PollReadable {
    /// Pending when a read would be; wakes the task as a read would.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl PollReadable for TcpStream {
    /// Ready also after an error, which the read then returns.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(cx).map(drop)
    }
}

/// rustls reads from the stream only when it has no plaintext left.
impl<S: PollReadable> PollReadable for client::TlsStream<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.get_ref();
        if session.wants_read() { stream.poll_readable(cx) } else { Poll::Ready(()) }
    }
}

impl<S: PollReadable> PollReadable for server::TlsStream<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.get_ref();
        if session.wants_read() { stream.poll_readable(cx) } else { Poll::Ready(()) }
    }
}

impl<S: PollReadable> PollReadable for Box<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_readable(cx)
    }
}

impl<S> PlaintextStream<S> {
    /// Wraps a TLS stream after its handshake.
    pub const fn new(stream: S) -> Self {
        Self(stream)
    }

    /// The TLS stream inside.
    pub const fn get_ref(&self) -> &S {
        &self.0
    }
}

impl<S: AsyncBufRead + PollReadable + Unpin> AsyncRead for PlaintextStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.0.poll_readable(cx));
        let bytes = ready!(Pin::new(&mut self.0).poll_fill_buf(cx))?;
        let count = bytes.len().min(buf.remaining());
        buf.put_slice(&bytes[..count]);
        Pin::new(&mut self.0).consume(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PlaintextStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream, DuplexStream};

    use super::*;

    /// Leaves the answer to a read.
    impl PollReadable for BufStream<DuplexStream> {
        fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    #[tokio::test]
    async fn a_short_buffer_loses_nothing_and_the_end_is_reported() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut plaintext = PlaintextStream::new(BufStream::new(near));
        far.write_all(b"abcdefg").await.unwrap();
        let mut room = [0; 3];
        for expected in [&b"abc"[..], b"def", b"g"] {
            let count = plaintext.read(&mut room).await.unwrap();
            assert_eq!(&room[..count], expected);
        }
        plaintext.write_all(b"back").await.unwrap();
        plaintext.flush().await.unwrap();
        let mut back = [0; 4];
        far.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"back");
        drop(far);
        assert_eq!(plaintext.read(&mut room).await.unwrap(), 0);
    }
}
