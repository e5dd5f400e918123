//! A stream that is read in small portions at first: until it shows that its client reads, no more is
//! taken at once of what an origin has sent than is to be held for one that does not. Then they are larger,
//! and largest where a sign says so. In the other direction it says how much the origin takes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

use crate::egress::limits::{
    ORIGIN_READ_BULK_BYTES, ORIGIN_READ_BYTES, ORIGIN_READ_LARGE_BYTES, ORIGIN_READ_SMALL_BYTES,
};

/// What those above the HTTP engine and the stream below it let each other know. They take turns on one task.
#[derive(Debug, Default)]
pub struct Signs {
    /// There is memory for larger portions than the smallest.
    pub may_grow: AtomicBool,
    /// With that, what comes is to be read in the largest portions.
    pub in_bulk: AtomicBool,
    /// One larger than those of the beginning was read: the engine makes room for more then, and gives none of it back.
    pub has_grown: AtomicBool,
    /// Bytes that the system has taken for the origin. The count begins again after the largest number.
    pub written: AtomicUsize,
    /// More of a request is still to come from its client.
    pub is_uploading: AtomicBool,
    /// More of a request is to be asked for when there are more of them.
    pub is_awaited: AtomicBool,
}

/// A connection to an origin, below the HTTP engine.
#[derive(Debug)]
pub struct Portions<S> {
    stream: Take<S>,
    /// Bytes read since something was written: since the request.
    taken: usize,
    signs: Arc<Signs>,
}

impl<S: AsyncRead> Portions<S> {
    pub fn new(stream: S, signs: Arc<Signs>) -> Self {
        Self { stream: stream.take(0), taken: 0, signs }
    }

    /// Bytes that may be read at once.
    fn portion(&self) -> usize {
        if self.taken < ORIGIN_READ_SMALL_BYTES || !self.signs.may_grow.load(Ordering::Relaxed) {
            ORIGIN_READ_BYTES
        } else if self.signs.in_bulk.load(Ordering::Relaxed) {
            ORIGIN_READ_BULK_BYTES
        } else {
            ORIGIN_READ_LARGE_BYTES
        }
    }

    /// Passes on what became of a write. When it has written a part of what it has, the engine does not ask for
    /// more of a request by itself.
    fn wrote(&self, cx: &Context<'_>, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = poll {
            let Signs { written, is_awaited, .. } = &*self.signs;
            written.store(written.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
            if is_awaited.load(Ordering::Relaxed) {
                is_awaited.store(false, Ordering::Relaxed);
                cx.waker().wake_by_ref();
            }
        }
        poll
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
        let bytes = buf.filled().len() - before;
        self.taken += bytes;
        if bytes > ORIGIN_READ_BYTES {
            self.signs.has_grown.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Portions<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        let poll = Pin::new(self.stream.get_mut()).poll_write(cx, buf);
        self.wrote(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        let stream = Pin::new(self.stream.get_mut());
        let poll = match bufs {
            // Requests without a body are written so, and to the system a list of one is dearer than the one.
            [one] => stream.poll_write(cx, one),
            several => stream.poll_write_vectored(cx, several),
        };
        self.wrote(cx, poll)
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
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn it_says_how_much_is_taken_and_wakes_who_waits_for_that() {
        let (near, mut far) = tokio::io::duplex(8);
        let signs = Arc::<Signs>::default();
        let mut portions = Portions::new(near, Arc::clone(&signs));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut write =
            || Pin::new(&mut portions).poll_write(&mut Context::from_waker(&waker), b"12345");
        for taken in [5, 3] {
            assert!(matches!(write(), Poll::Ready(Ok(bytes)) if bytes == taken));
        }
        assert_eq!(signs.written.load(Ordering::Relaxed), 8);
        signs.is_awaited.store(true, Ordering::Relaxed);
        assert!(
            write().is_pending() && signs.is_awaited.load(Ordering::Relaxed),
            "nothing is taken"
        );
        far.read_exact(&mut [0; 1]).await.unwrap();
        let before = woken.0.load(Ordering::Relaxed);
        assert!(write().is_ready() && !signs.is_awaited.load(Ordering::Relaxed));
        assert_eq!(signs.written.load(Ordering::Relaxed), 9);
        assert_eq!(
            woken.0.load(Ordering::Relaxed),
            before + 1,
            "more of the request can be asked for"
        );
        far.read_exact(&mut [0; 8]).await.unwrap();
        let before = woken.0.load(Ordering::Relaxed);
        assert!(write().is_ready());
        assert_eq!(woken.0.load(Ordering::Relaxed), before, "nobody waits for it");
    }

    /// How often.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn portions_are_small_until_much_has_been_read_and_again_after_the_next_request() {
        const BYTES: usize = ORIGIN_READ_SMALL_BYTES + 2 * ORIGIN_READ_BULK_BYTES;
        let (near, mut far) = tokio::io::duplex(BYTES);
        let signs = Arc::<Signs>::default();
        let mut portions = Portions::new(near, Arc::clone(&signs));
        portions.write_all(b"request").await.unwrap();
        far.read_exact(&mut [0; 7]).await.unwrap();
        far.write_all(&[b'x'; ORIGIN_READ_SMALL_BYTES]).await.unwrap();
        portions.read_exact(&mut [0; ORIGIN_READ_SMALL_BYTES]).await.unwrap();
        assert!(!signs.has_grown.load(Ordering::Relaxed), "all of them were small");
        far.write_all(&[b'x'; 2 * ORIGIN_READ_BYTES]).await.unwrap();
        let mut room = vec![0; 2 * ORIGIN_READ_BYTES];
        assert_eq!(
            portions.read(&mut room).await.unwrap(),
            ORIGIN_READ_BYTES,
            "no memory for more"
        );
        portions.read_exact(&mut room[..ORIGIN_READ_BYTES]).await.unwrap();
        signs.may_grow.store(true, Ordering::Relaxed);
        for (in_bulk, then) in [(false, ORIGIN_READ_LARGE_BYTES), (true, ORIGIN_READ_BULK_BYTES)] {
            signs.in_bulk.store(in_bulk, Ordering::Relaxed);
            portions.write_all(b"request").await.unwrap();
            far.read_exact(&mut [0; 7]).await.unwrap();
            far.write_all(&vec![b'x'; BYTES]).await.unwrap();
            let (mut room, mut pieces) = (vec![0; BYTES], Vec::new());
            while pieces.iter().sum::<usize>() < BYTES {
                pieces.push(portions.read(&mut room).await.unwrap());
            }
            let small = ORIGIN_READ_SMALL_BYTES.div_ceil(ORIGIN_READ_BYTES);
            assert!(pieces[..small].iter().all(|bytes| *bytes == ORIGIN_READ_BYTES), "{pieces:?}");
            assert!(
                pieces[small..pieces.len() - 1].iter().all(|bytes| *bytes == then),
                "{pieces:?}"
            );
            assert!(signs.has_grown.load(Ordering::Relaxed));
        }
    }
}
