//! Limits read sizes: small until the client has proved that it reads, so that a stalled client
//! costs little memory. Counts what the origin takes of a request, for backpressure. Passes heads
//! that hyper might not take through a [`HeadReader`].

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::response_head::{HeadOf, HeadReader};
use crate::egress::body::IoState;
use crate::egress::config::{
    ORIGIN_READ_BYTES, ORIGIN_READ_LARGE_BYTES, ORIGIN_READ_LARGEST_BYTES, ORIGIN_READ_SMALL_BYTES,
};

/// The stream of a connection, below hyper.
#[derive(Debug)]
pub struct ReadLimited<S> {
    stream: Take<S>,
    /// Bytes read since something was written: since the request.
    taken: usize,
    io: Arc<IoState>,
    /// Reads the head of the response that is to come.
    head: Option<Box<HeadReader>>,
    /// Whether what is written is dropped, until a head has been read: the origin has had it.
    replays: Option<Replay>,
}

/// The second sending of a request of which only the response is read.
#[derive(Debug, PartialEq, Eq)]
enum Replay {
    /// hyper has not written the request yet, and may not read before.
    Awaited,
    Written,
}

impl<S: AsyncRead> ReadLimited<S> {
    /// Limits reads of `stream` by the flags of `io`.
    pub fn new(stream: S, io: Arc<IoState>) -> Self {
        Self { stream: stream.take(0), taken: 0, io, head: None, replays: None }
    }

    /// The same, for a request that has been sent over `stream`: `head` has come of its response.
    pub fn replaying(stream: S, io: Arc<IoState>, head: HeadReader) -> Self {
        let head = Some(Box::new(head));
        Self { head, replays: Some(Replay::Awaited), ..Self::new(stream, io) }
    }

    /// The stream, if `unread` is all that has come since the request was written.
    pub fn into_stream(self, unread: usize) -> Option<S> {
        let is_all = self.taken == unread && self.head.is_none();
        is_all.then(|| self.stream.into_inner())
    }

    /// Bytes that may be read at once.
    fn limit(&self) -> usize {
        if self.taken < ORIGIN_READ_SMALL_BYTES
            || !self.io.allows_large_reads.load(Ordering::Relaxed)
        {
            ORIGIN_READ_BYTES
        } else if self.io.allows_largest_reads.load(Ordering::Relaxed) {
            ORIGIN_READ_LARGEST_BYTES
        } else {
            ORIGIN_READ_LARGE_BYTES
        }
    }

    /// Counts what was written, and wakes the task if the request body waits for it: after a
    /// partial write hyper does not poll the body by itself.
    fn count(&self, cx: &Context<'_>, poll: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = poll {
            let IoState { written, is_awaited, .. } = &*self.io;
            written.store(written.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
            if is_awaited.load(Ordering::Relaxed) {
                is_awaited.store(false, Ordering::Relaxed);
                cx.waker().wake_by_ref();
            }
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> ReadLimited<S> {
    /// Reads through the reader of the head, which goes when all that it has was given.
    fn poll_read_head(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.replays == Some(Replay::Awaited) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(head) = &mut self.head else { return Poll::Ready(Ok(())) };
        ready!(head.poll_read(self.stream.get_mut(), cx, buf))?;
        self.taken += 1;
        if head.is_done() {
            self.io.has_mended_head.store(head.is_changed(), Ordering::Relaxed);
            (self.head, self.replays) = (None, None);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadLimited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.taken == 0 && self.io.reads_robots_txt.load(Ordering::Relaxed) {
            self.io.reads_robots_txt.store(false, Ordering::Relaxed);
            let bytes_max = self.io.head_bytes_max.load(Ordering::Relaxed);
            let head = HeadReader::new(HeadOf::RobotsTxt, bytes_max, &[]);
            self.head = Some(Box::new(head));
        }
        if self.head.is_some() {
            return self.poll_read_head(cx, buf);
        }
        let before = buf.filled().len();
        let limit = self.limit();
        self.stream.set_limit(limit as u64);
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let bytes = buf.filled().len() - before;
        self.taken += bytes;
        if bytes > ORIGIN_READ_BYTES {
            self.io.has_large_buffer.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ReadLimited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        if self.replays.is_some() {
            self.replays = Some(Replay::Written);
            return Poll::Ready(Ok(buf.len()));
        }
        let poll = Pin::new(self.stream.get_mut()).poll_write(cx, buf);
        self.count(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.taken = 0;
        if self.replays.is_some() {
            self.replays = Some(Replay::Written);
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        let stream = Pin::new(self.stream.get_mut());
        let poll = match bufs {
            // hyper writes requests without a body as a list of one, and writev(2) costs more than
            // write(2).
            [one] => stream.poll_write(cx, one),
            several => stream.poll_write_vectored(cx, several),
        };
        self.count(cx, poll)
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

// Responses that are read in the largest pieces: over a few connections at a time, and each only
// while much of it is still to come. The rest is read in smaller pieces, because it may be held
// for a client that has stopped reading.

/// Connections that read in the largest pieces at one time: when all their clients stop, 72 MiB are
/// held.
pub const BUFFER_PERMITS_MAX: usize = 32;

/// Responses of at least so many bytes are read in the largest pieces.
const LARGE_RESPONSE_BYTES: u64 = 8 << 20;

/// The bytes at the end of such a response that are read in smaller pieces.
const REST_BYTES: u64 = 4 * ORIGIN_READ_LARGEST_BYTES as u64;

/// Permits one connection to have a buffer for the largest pieces.
#[derive(Debug)]
pub struct BufferPermit {
    _permit: OwnedSemaphorePermit,
}

impl BufferPermit {
    /// For a response of `remaining` bytes, if it is large and there is a permit.
    pub fn take(permits: &Arc<Semaphore>, remaining: u64) -> Option<Self> {
        if remaining < LARGE_RESPONSE_BYTES {
            return None;
        }
        Arc::clone(permits).try_acquire_owned().ok().map(|permit| Self { _permit: permit })
    }
}

/// A response that is read in the largest pieces until this is dropped.
#[derive(Debug)]
pub struct LargeRead(Arc<IoState>);

impl LargeRead {
    /// For a response of `remaining` bytes over the connection of `io`.
    pub fn begin(io: &Arc<IoState>, remaining: u64) -> Option<Self> {
        let read = Self(Arc::clone(io));
        read.0.allows_largest_reads.store(true, Ordering::Relaxed);
        Some(read).filter(|read| read.is_far_from_end(Some(remaining)))
    }

    /// Whether so much of the response remains that the largest pieces are still used.
    pub fn is_far_from_end(&self, remaining: Option<u64>) -> bool {
        remaining.is_some_and(|bytes| bytes >= REST_BYTES)
    }
}

impl Drop for LargeRead {
    fn drop(&mut self) {
        self.0.allows_largest_reads.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::{Wake, Waker};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn counts_what_is_written_and_wakes_a_task_that_waits_for_it() {
        let (near, mut far) = tokio::io::duplex(8);
        let io = Arc::<IoState>::default();
        let mut stream = ReadLimited::new(near, Arc::clone(&io));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut write =
            || Pin::new(&mut stream).poll_write(&mut Context::from_waker(&waker), b"12345");
        for taken in [5, 3] {
            assert!(matches!(write(), Poll::Ready(Ok(bytes)) if bytes == taken));
        }
        assert_eq!(io.written.load(Ordering::Relaxed), 8);
        io.is_awaited.store(true, Ordering::Relaxed);
        assert!(write().is_pending() && io.is_awaited.load(Ordering::Relaxed), "nothing is taken");
        far.read_exact(&mut [0; 1]).await.unwrap();
        let before = woken.0.load(Ordering::Relaxed);
        assert!(write().is_ready() && !io.is_awaited.load(Ordering::Relaxed));
        assert_eq!(io.written.load(Ordering::Relaxed), 9);
        assert_eq!(
            woken.0.load(Ordering::Relaxed),
            before + 1,
            "more of the request can be asked for"
        );
        far.read_exact(&mut [0; 8]).await.unwrap();
        let before = woken.0.load(Ordering::Relaxed);
        assert!(write().is_ready());
        assert_eq!(woken.0.load(Ordering::Relaxed), before, "no reader waits for it");
    }

    /// Counts wake-ups.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn reads_grow_with_the_permission_for_them() {
        const BYTES: usize = ORIGIN_READ_SMALL_BYTES + 2 * ORIGIN_READ_LARGEST_BYTES;
        let (near, mut far) = tokio::io::duplex(BYTES);
        let io = Arc::<IoState>::default();
        let mut stream = ReadLimited::new(near, Arc::clone(&io));
        stream.write_all(b"request").await.unwrap();
        far.read_exact(&mut [0; 7]).await.unwrap();
        far.write_all(&[b'x'; ORIGIN_READ_SMALL_BYTES]).await.unwrap();
        stream.read_exact(&mut [0; ORIGIN_READ_SMALL_BYTES]).await.unwrap();
        assert!(!io.has_large_buffer.load(Ordering::Relaxed), "all of them were small");
        far.write_all(&[b'x'; 2 * ORIGIN_READ_BYTES]).await.unwrap();
        let mut room = vec![0; 2 * ORIGIN_READ_BYTES];
        assert_eq!(stream.read(&mut room).await.unwrap(), ORIGIN_READ_BYTES, "no memory for more");
        stream.read_exact(&mut room[..ORIGIN_READ_BYTES]).await.unwrap();
        io.allows_large_reads.store(true, Ordering::Relaxed);
        for (allows_largest_reads, then) in
            [(false, ORIGIN_READ_LARGE_BYTES), (true, ORIGIN_READ_LARGEST_BYTES)]
        {
            io.allows_largest_reads.store(allows_largest_reads, Ordering::Relaxed);
            stream.write_all(b"request").await.unwrap();
            far.read_exact(&mut [0; 7]).await.unwrap();
            far.write_all(&vec![b'x'; BYTES]).await.unwrap();
            let (mut room, mut pieces) = (vec![0; BYTES], Vec::new());
            while pieces.iter().sum::<usize>() < BYTES {
                pieces.push(stream.read(&mut room).await.unwrap());
            }
            let small = ORIGIN_READ_SMALL_BYTES.div_ceil(ORIGIN_READ_BYTES);
            assert!(pieces[..small].iter().all(|bytes| *bytes == ORIGIN_READ_BYTES), "{pieces:?}");
            assert!(
                pieces[small..pieces.len() - 1].iter().all(|bytes| *bytes == then),
                "{pieces:?}"
            );
            assert!(io.has_large_buffer.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn few_connections_read_large_pieces_at_one_time() {
        let permits = Arc::new(Semaphore::new(BUFFER_PERMITS_MAX));
        assert!(BufferPermit::take(&permits, LARGE_RESPONSE_BYTES - 1).is_none(), "not large");
        let take = || BufferPermit::take(&permits, LARGE_RESPONSE_BYTES);
        let taken: Vec<_> = std::iter::from_fn(take).collect();
        assert_eq!(taken.len(), BUFFER_PERMITS_MAX);
        drop(taken);
        assert!(take().is_some());
    }

    #[test]
    fn a_response_is_read_in_the_largest_pieces_until_little_is_left() {
        let io = Arc::<IoState>::default();
        let is_set = || io.allows_largest_reads.load(Ordering::Relaxed);
        assert!(LargeRead::begin(&io, REST_BYTES - 1).is_none() && !is_set());
        let read = LargeRead::begin(&io, REST_BYTES).unwrap();
        assert!(is_set() && read.is_far_from_end(Some(REST_BYTES)));
        assert!(!read.is_far_from_end(Some(REST_BYTES - 1)) && !read.is_far_from_end(None));
        drop(read);
        assert!(!is_set());
    }
}
