//! A stream that is read in small portions at first: until it shows that its client reads, no more is
//! taken at once of what an origin has sent than is to be held for one that does not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use crate::limits::{ORIGIN_READ_OCTETS, ORIGIN_READ_SMALL_OCTETS};

/// A connection to an origin, below the HTTP engine.
#[derive(Debug)]
pub struct Portions<S> {
    stream: Take<S>,
    /// Octets read since something was written: since the request.
    taken: usize,
}

impl<S: AsyncRead> Portions<S> {
    pub fn new(stream: S) -> Self {
        Self { stream: stream.take(0), taken: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Portions<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken >= ORIGIN_READ_SMALL_OCTETS {
            return Pin::new(self.stream.get_mut()).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        self.stream.set_limit(ORIGIN_READ_OCTETS as u64);
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.taken += buf.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Portions<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.taken = 0;
        Pin::new(self.stream.get_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        Pin::new(self.stream.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn portions_are_small_until_much_has_been_read_and_again_after_the_next_request() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut portions = Portions::new(near);
        let mut buffer = vec![0; 64 << 10];
        for _ in 0..2 {
            portions.write_all(b"request").await.unwrap();
            far.write_all(&vec![b'x'; ORIGIN_READ_SMALL_OCTETS + (128 << 10)]).await.unwrap();
            let mut taken = 0;
            while taken < ORIGIN_READ_SMALL_OCTETS {
                let count = portions.read(&mut buffer).await.unwrap();
                assert_eq!(count, ORIGIN_READ_OCTETS);
                taken += count;
            }
            assert_eq!(portions.read(&mut buffer).await.unwrap(), buffer.len());
            let mut rest = ORIGIN_READ_SMALL_OCTETS + (128 << 10) - taken - buffer.len();
            while rest > 0 {
                rest -= portions.read(&mut buffer).await.unwrap();
            }
        }
    }
}
