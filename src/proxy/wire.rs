//! A client's connection as the HTTP engine sees it. It adds three things that the engine lacks:
//! deadlines for idling, for a request head and for a client that does not read; interim (1xx)
//! responses; and silence where the engine would answer bad syntax with an empty 400, so that the
//! server can say what was wrong.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::control::Control;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// Between two requests.
    pub idle: Duration,
    /// From the first octet of a request head to its last.
    pub head: Duration,
    /// Without reading anything of a response.
    pub write: Duration,
}

/// The stream of one client.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    control: Arc<Control>,
    deadlines: Deadlines,
    in_head: bool,
    /// The engine has handed over all it had: whatever it writes next begins a message.
    between_messages: bool,
    /// The client did not take all at once.
    blocked: bool,
    /// How many requests had been read when the current phase began.
    exchanges: usize,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S, control: Arc<Control>, deadlines: Deadlines) -> Self {
        Self {
            stream,
            control,
            deadlines,
            in_head: false,
            between_messages: true,
            blocked: false,
            exchanges: 0,
            reading: None,
            writing: None,
        }
    }

    /// The stream itself, when the engine is done with it.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Waits for the client no longer than its phase allows.
    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let limit = if self.in_head { self.deadlines.head } else { self.deadlines.idle };
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        let phase = if self.in_head { "the request head did not come" } else { "no request came" };
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, format!("{phase} within {limit:?}")))
    }

    /// Passes a pending write on, or fails when the client has not read for too long.
    fn watch_write<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.writing = None;
            return poll;
        }
        let limit = self.deadlines.write;
        ready!(self.writing.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
        let reason = format!("the client has read nothing for {limit:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }

    /// Writes what interim responses there are. A client may have asked for more while the engine
    /// still holds the end of the response before: an interim response has no place in there, and
    /// is dropped, as a hint may be (RFC 9110 §15.2).
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.control.has_interim() {
            let control = Arc::clone(&self.control);
            let mut interim = control.interim();
            if !self.between_messages {
                interim.clear();
                control.note_interim_left(false);
                break;
            }
            let poll = Pin::new(&mut self.stream).poll_write(cx, &interim);
            let written = ready!(self.watch_write(cx, poll))?;
            interim.advance(written);
            control.note_interim_left(!interim.is_empty());
        }
        Poll::Ready(Ok(()))
    }

    /// What the engine has begun to write goes on before anything of ours.
    fn engine_wrote(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.between_messages = false;
        self.blocked |= poll.is_pending();
        if poll.is_ready() {
            self.control.note_answer_begun();
        }
        self.watch_write(cx, poll)
    }

    fn swallows(&self, octets: &[u8]) -> bool {
        let nobodys = self.control.is_idle() && !self.control.has_answer();
        let canned = nobodys && is_engines_own_error(octets);
        if canned {
            self.control.swallow();
        }
        canned
    }
}

/// The engine answers bad syntax with exactly three fields and no content. So may an origin, but
/// that is a response that the engine was given.
fn is_engines_own_error(octets: &[u8]) -> bool {
    let Some(rest) = octets.strip_prefix(b"HTTP/1.1 4").or_else(|| octets.strip_prefix(b"HTTP/1.0 4")) else {
        return false;
    };
    let Some(head) = rest.strip_suffix(b"\r\n\r\n") else { return false };
    let mut names: Vec<&[u8]> = head
        .split(|octet| *octet == b'\n')
        .skip(1)
        .map(|line| line.split(|octet| *octet == b':').next().unwrap_or_default())
        .collect();
    names.sort_unstable();
    let names_only: &[&[u8]] = &[b"connection", b"content-length", b"date"];
    names == names_only
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buf);
        let exchanges = self.control.exchanges();
        if self.exchanges != exchanges {
            (self.exchanges, self.in_head, self.reading) = (exchanges, false, None);
        }
        if !self.control.is_idle() || self.control.is_released() {
            return poll;
        }
        match poll {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                if !self.in_head {
                    (self.in_head, self.reading) = (true, None);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(end) => Poll::Ready(end),
            Poll::Pending => self.poll_read_deadline(cx).map(Err),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        if self.swallows(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.engine_wrote(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        if let Some(first) = bufs.first()
            && self.swallows(first)
        {
            return Poll::Ready(Ok(first.len()));
        }
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.engine_wrote(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_interim(cx))?;
        // The engine flushes only what it has written whole.
        self.between_messages = true;
        if std::mem::take(&mut self.blocked) {
            // The engine does not look at a request that it has read while this was not yet written,
            // and nothing else would wake it: the request would never be answered.
            cx.waker().wake_by_ref();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Once the engine's answer is held back, closing is left to whoever answers.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.control.swallowed() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
