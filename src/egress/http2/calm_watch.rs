//! Sees a GOAWAY of ENHANCE_YOUR_CALM (RFC 9113 §6.8, §7). The HTTP/2 library tells an exchange that
//! the origin has begun with only that its connection has ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of the head of a frame (RFC 9113 §4.1).
const HEAD_BYTES: usize = 9;
/// The same with the last stream and the code of a GOAWAY.
const GOAWAY_BYTES: usize = HEAD_BYTES + 8;

const GOAWAY: u8 = 0x7;

/// Whether the origin has said so.
pub type WantsCalm = Arc<AtomicBool>;

/// The stream of a connection, below the HTTP/2 library.
#[derive(Debug)]
pub struct CalmWatch<S> {
    stream: S,
    /// The beginning of a frame, and how much of it has come.
    frame: [u8; GOAWAY_BYTES],
    length: usize,
    /// Bytes of a frame that are still to come and say nothing.
    content: usize,
    wants_calm: WantsCalm,
}

impl<S> CalmWatch<S> {
    /// Watches `stream`, of which nothing has been read.
    pub fn new(stream: S) -> (Self, WantsCalm) {
        let wants_calm = WantsCalm::default();
        let own = Arc::clone(&wants_calm);
        let frame = [0; GOAWAY_BYTES];
        (Self { stream, frame, length: 0, content: 0, wants_calm: own }, wants_calm)
    }

    fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let passed = self.content.min(bytes.len());
            self.content -= passed;
            bytes = &bytes[passed..];
            let missing = (self.needed() - self.length).min(bytes.len());
            self.frame[self.length..self.length + missing].copy_from_slice(&bytes[..missing]);
            self.length += missing;
            bytes = &bytes[missing..];
            if self.length >= HEAD_BYTES && self.length == self.needed() {
                self.end_beginning();
            }
        }
    }

    /// Bytes of the frame that say something, as far as it is known.
    fn needed(&self) -> usize {
        let is_go_away = self.length >= HEAD_BYTES && self.frame[3] == GOAWAY;
        // A shorter one is the origin's breach of the protocol, which ends the connection.
        if is_go_away && self.content_length() >= 8 { GOAWAY_BYTES } else { HEAD_BYTES }
    }

    fn content_length(&self) -> usize {
        let [high, middle, low, ..] = self.frame;
        u32::from_be_bytes([0, high, middle, low]) as usize
    }

    /// Goes on to the rest of the frame, which says nothing.
    fn end_beginning(&mut self) {
        let [.., a, b, c, d] = self.frame;
        let is_whole = self.length == GOAWAY_BYTES;
        if is_whole && u32::from_be_bytes([a, b, c, d]) == u32::from(Reason::ENHANCE_YOUR_CALM) {
            self.wants_calm.store(true, Ordering::Release);
        }
        self.content = self.content_length() + HEAD_BYTES - self.length;
        self.length = 0;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CalmWatch<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.see(&buf.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CalmWatch<S> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], content].concat()
    }

    #[test]
    fn a_goaway_is_seen_among_other_frames_in_whatever_pieces() {
        let calm = frame(GOAWAY, &[0, 0, 0, 1, 0, 0, 0, 11]);
        let said = frame(GOAWAY, &[&[0, 0, 0, 1, 0, 0, 0, 11][..], b"too many"].concat());
        let other = frame(GOAWAY, &[0, 0, 0, 11, 0, 0, 0, 0]);
        let [data, empty] = [frame(0, &[7; 300]), frame(0, b"")];
        for (frames, expected) in [
            (vec![&calm], true),
            (vec![&data, &empty, &calm, &data], true),
            (vec![&other, &said], true),
            (vec![&other, &data], false),
            (vec![&data, &frame(1, &calm), &empty], false),
            (vec![&frame(GOAWAY, &[0, 0]), &data], false),
            (vec![], false),
        ] {
            let bytes = frames.into_iter().flatten().copied().collect::<Vec<_>>();
            for piece in [1, 2, 8, 9, 10, 17, 4096] {
                let (mut watch, wants_calm) = CalmWatch::new(());
                bytes.chunks(piece).for_each(|bytes| watch.see(bytes));
                assert_eq!(wants_calm.load(Ordering::Acquire), expected, "{piece}");
            }
        }
    }
}
