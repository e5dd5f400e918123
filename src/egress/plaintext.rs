//! What comes out of TLS, read without preparing room for it: the library would clear all the room
//! there is before each read, and the HTTP engine offers kilobytes for a head of some hundred bytes.
//! Nor is the library asked where nothing has come: the engine looks several times for each message.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// A stream of TLS, on either side.
#[derive(Debug)]
pub struct Plaintext<S>(S);

/// A stream that can tell, without being read, that there is nothing to read.
pub trait Readable {
    /// Pending where a read would be, and whoever asks is woken as a reader would be.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Readable for TcpStream {
    /// What is wrong with it, a read shows.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_read_ready(cx).map(drop)
    }
}

/// The library wants to read where it has no plaintext left, and goes to the stream then.
impl<S: Readable> Readable for client::TlsStream<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.get_ref();
        if session.wants_read() { stream.poll_readable(cx) } else { Poll::Ready(()) }
    }
}

impl<S: Readable> Readable for server::TlsStream<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let (stream, session) = self.get_ref();
        if session.wants_read() { stream.poll_readable(cx) } else { Poll::Ready(()) }
    }
}

impl<S: Readable> Readable for Box<S> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_readable(cx)
    }
}

impl<S> Plaintext<S> {
    pub const fn new(stream: S) -> Self {
        Self(stream)
    }

    /// The stream of TLS itself.
    pub const fn get_ref(&self) -> &S {
        &self.0
    }
}

impl<S: AsyncBufRead + Readable + Unpin> AsyncRead for Plaintext<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Plaintext<S> {
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

    /// It never knows better than a read.
    impl Readable for BufStream<DuplexStream> {
        fn poll_readable(&self, _: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }
    }

    #[tokio::test]
    async fn what_does_not_fit_is_read_next_and_the_end_is_an_end() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut plaintext = Plaintext::new(BufStream::new(near));
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
