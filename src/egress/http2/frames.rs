//! Sees a GOAWAY of ENHANCE_YOUR_CALM (RFC 9113 §6.8, §7). The HTTP/2 library tells an exchange that
//! the origin has begun with only that its connection has ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, ReadBuf};

use crate::runtime::delegate_io::delegate_write;

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

delegate_write!(CalmWatch);

// Drops DATA frames without content. They say nothing, and some origins send one with each flush;
// the HTTP/2 library ends a connection after a hundred of them over all of its life, with all the
// exchanges on it. A flood of them reaches it all the same.

/// Empty frames that are dropped between two that have content.
const EMPTY_FRAMES_MAX: u32 = 1000;

const DATA: u8 = 0x0;
const END_STREAM: u8 = 0x1;

/// The stream of a connection, below the HTTP/2 library.
#[derive(Debug)]
pub struct WithoutEmptyFrames<S> {
    stream: S,
    /// The head of a frame that has come in part.
    head: [u8; HEAD_BYTES],
    /// Bytes of it that have come.
    head_length: usize,
    /// Bytes of it that were given: the others are held until it is known what it is.
    head_given: usize,
    /// Bytes of the content of a frame that are still to come.
    content: usize,
    /// Empty frames since one with content.
    empty: u32,
}

impl<S> WithoutEmptyFrames<S> {
    /// Reads `stream`, of which nothing has been read.
    pub const fn new(stream: S) -> Self {
        Self { stream, head: [0; HEAD_BYTES], head_length: 0, head_given: 0, content: 0, empty: 0 }
    }

    /// Removes from `bytes`, which follow what was given, what is to be dropped or held; how many are
    /// left.
    fn drop_empty(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            let begin = at;
            if self.content > 0 {
                let length = self.content.min(bytes.len() - at);
                self.content -= length;
                at += length;
            } else {
                let length = (HEAD_BYTES - self.head_length).min(bytes.len() - at);
                let place = self.head_length..self.head_length + length;
                self.head[place].copy_from_slice(&bytes[at..at + length]);
                self.head_length += length;
                at += length;
                if self.head_length < HEAD_BYTES || self.take_head() {
                    continue;
                }
            }
            if kept != begin {
                bytes.copy_within(begin..at, kept);
            }
            kept += at - begin;
        }
        kept
    }

    /// Takes the whole head of a frame; whether the frame is to be dropped.
    fn take_head(&mut self) -> bool {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.content = u32::from_be_bytes([0, high, middle, low]) as usize;
        let is_empty = kind == DATA && flags & END_STREAM == 0 && self.content == 0;
        self.empty = if is_empty { self.empty.saturating_add(1) } else { 0 };
        let is_dropped = is_empty && self.empty <= EMPTY_FRAMES_MAX && self.head_given == 0;
        (self.head_length, self.head_given) = (0, 0);
        is_dropped
    }

    /// Puts what is held into `buf`; how much that is.
    fn give_held(&mut self, buf: &mut ReadBuf<'_>) -> usize {
        let held = &self.head[self.head_given..self.head_length];
        let length = held.len().min(buf.remaining());
        buf.put_slice(&held[..length]);
        length
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WithoutEmptyFrames<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            let held = self.give_held(buf);
            if buf.remaining() == 0 {
                self.head_given += held;
                return Poll::Ready(Ok(()));
            }
            // What is held is read once more with what follows it.
            let read = Pin::new(&mut self.stream).poll_read(cx, buf);
            let has_ended = read.is_ready() && buf.filled().len() == before + held;
            if !matches!(read, Poll::Ready(Ok(()))) || has_ended && held == 0 {
                buf.set_filled(before);
                return read;
            }
            if has_ended {
                self.head_given += held;
                return Poll::Ready(Ok(()));
            }
            self.head_length = self.head_given;
            let kept = self.drop_empty(&mut buf.filled_mut()[before..]);
            buf.set_filled(before + kept);
            // Nothing at all would be the end of the stream.
            if kept > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

delegate_write!(WithoutEmptyFrames);

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

#[cfg(test)]
mod empty_frames_tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn frame(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], content].concat()
    }

    /// What is left of `bytes` that come in pieces of `piece`.
    async fn left(bytes: &[u8], piece: usize) -> Vec<u8> {
        let (mut near, far) = tokio::io::duplex(piece);
        let write = async move { near.write_all(bytes).await.unwrap() };
        let read = async {
            let mut left = Vec::new();
            WithoutEmptyFrames::new(far).read_to_end(&mut left).await.unwrap();
            left
        };
        tokio::join!(write, read).1
    }

    #[tokio::test]
    async fn data_without_content_is_dropped_and_all_else_stays() {
        let empty = frame(DATA, 0, b"");
        let content = frame(DATA, 0, &[0; 20]);
        let others = [
            frame(4, 0, b""),
            frame(DATA, END_STREAM, b""),
            frame(1, 4, b"head"),
            frame(DATA, 8, &[3, 0, 0, 0]),
        ];
        let sent = [&empty, &others[0], &empty, &content, &others.concat(), &empty, &content];
        let sent = sent.map(Vec::as_slice).concat();
        let expected =
            [&others[0], &content, &others.concat(), &content].map(Vec::as_slice).concat();
        for piece in 1..sent.len() {
            assert_eq!(left(&sent, piece).await, expected, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn room_for_less_than_a_head_is_enough() {
        let sent = [frame(4, 0, b""), frame(DATA, 0, b""), frame(DATA, 0, b"content")].concat();
        let mut frames = WithoutEmptyFrames::new(sent.as_slice());
        let mut given = Vec::new();
        let mut byte = [0];
        while frames.read(&mut byte).await.unwrap() > 0 {
            given.extend(byte);
        }
        // Of a head that was given in part the rest follows.
        assert_eq!(given, sent);
    }

    #[tokio::test]
    async fn empty_data_frames_beyond_the_limit_reach_h2() {
        let flood = frame(DATA, 0, b"").repeat(EMPTY_FRAMES_MAX as usize + 7);
        let sent = [frame(4, 0, b""), flood].concat();
        assert_eq!(left(&sent, sent.len()).await.len(), HEAD_BYTES * (1 + 7));
    }
}
