//! A stream that is read in small portions at first: until it shows that its client reads, no more is
//! taken at once of what an origin has sent than is to be held for one that does not. Then they are larger,
//! and largest where a sign says so.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use super::bulk::Sign;
use crate::limits::{
    ORIGIN_READ_BULK_OCTETS, ORIGIN_READ_LARGE_OCTETS, ORIGIN_READ_OCTETS, ORIGIN_READ_SMALL_OCTETS,
};

/// A connection to an origin, below the HTTP engine.
#[derive(Debug)]
pub struct Portions<S> {
    stream: Take<S>,
    /// Octets read since something was written: since the request.
    taken: usize,
    in_bulk: Sign,
}

impl<S: AsyncRead> Portions<S> {
    pub fn new(stream: S, in_bulk: Sign) -> Self {
        Self { stream: stream.take(0), taken: 0, in_bulk }
    }

    /// Octets that may be read at once.
    fn portion(&self) -> usize {
        if self.taken < ORIGIN_READ_SMALL_OCTETS {
            ORIGIN_READ_OCTETS
        } else if self.in_bulk.load(Ordering::Relaxed) {
            ORIGIN_READ_BULK_OCTETS
        } else {
            ORIGIN_READ_LARGE_OCTETS
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Portions<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, portion) = (buf.filled().len(), self.portion());
        self.stream.set_limit(portion as u64);
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
        let stream = Pin::new(self.stream.get_mut());
        match bufs {
            // Requests without a body are written so, and to the system a list of one is dearer than the one.
            [one] => stream.poll_write(cx, one),
            several => stream.poll_write_vectored(cx, several),
        }
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
    use std::sync::Arc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn portions_are_small_until_much_has_been_read_and_again_after_the_next_request() {
        const OCTETS: usize = ORIGIN_READ_SMALL_OCTETS + 2 * ORIGIN_READ_BULK_OCTETS;
        let (near, mut far) = tokio::io::duplex(OCTETS);
        let sign = Sign::default();
        let mut portions = Portions::new(near, Arc::clone(&sign));
        for (in_bulk, then) in [(false, ORIGIN_READ_LARGE_OCTETS), (true, ORIGIN_READ_BULK_OCTETS)] {
            sign.store(in_bulk, Ordering::Relaxed);
            portions.write_all(b"request").await.unwrap();
            far.read_exact(&mut [0; 7]).await.unwrap();
            far.write_all(&vec![b'x'; OCTETS]).await.unwrap();
            let (mut room, mut pieces) = (vec![0; OCTETS], Vec::new());
            while pieces.iter().sum::<usize>() < OCTETS {
                pieces.push(portions.read(&mut room).await.unwrap());
            }
            let small = ORIGIN_READ_SMALL_OCTETS.div_ceil(ORIGIN_READ_OCTETS);
            assert!(pieces[..small].iter().all(|octets| *octets == ORIGIN_READ_OCTETS), "{pieces:?}");
            assert!(pieces[small..pieces.len() - 1].iter().all(|octets| *octets == then), "{pieces:?}");
        }
    }
}
