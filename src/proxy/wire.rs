//! A client's connection as the HTTP engine sees it. The engine gets one request at a time, and none
//! whose framing could be understood in two ways ([`Framing`]). Besides, the wire adds what the
//! engine lacks: deadlines for idling, for a request head and for a client that does not read;
//! interim (1xx) responses; and an eye on a client that leaves before it is answered.

#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::control::Control;
use super::framing::{Admit, Fault, Framing};
use super::head;
use super::refusal::Refusal;
use crate::limits::{HALF_CLOSED_PROBE, LOOK_AHEAD_OCTETS_MAX};

/// Any client may be sent one, and does nothing about it (RFC 9110 §15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

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
    framing: Framing,
    /// What the engine has not been given yet.
    held: BytesMut,
    /// How many octets of it the engine may have.
    granted: usize,
    /// Nothing more comes from the client, or nothing more is wanted of it.
    ended: bool,
    in_head: bool,
    /// The engine has handed over all it had: whatever it writes next begins a message.
    between_messages: bool,
    /// The client did not take all at once.
    blocked: bool,
    /// How many requests had been read when the current phase began.
    exchanges: usize,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
    /// The next probe of a client that has ended its side, and how long it was waited for.
    probe: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub fn new(stream: S, control: Arc<Control>, deadlines: Deadlines, framing: Framing) -> Self {
        Self {
            stream,
            control,
            deadlines,
            framing,
            held: BytesMut::new(),
            granted: 0,
            ended: false,
            in_head: false,
            between_messages: true,
            blocked: false,
            exchanges: 0,
            reading: None,
            writing: None,
            probe: None,
        }
    }

    /// The stream itself, when the engine is done with it.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Hands the engine octets of one request, when there are some that it may have.
    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.granted.min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.granted -= count;
        if self.held.is_empty() {
            // An idle connection takes up no room.
            self.held = BytesMut::new();
        }
        count > 0
    }

    /// Judges what is held. Where it does not hold, nothing more of this client is a request
    /// (RFC 9112 §11.2): for a head, the engine sees the end, and whoever serves the connection says
    /// why; a body ends in an error.
    fn admit_held(&mut self) -> io::Result<()> {
        while self.granted == 0 {
            match self.framing.admit(&mut self.held) {
                Ok(Admit::Pass(count)) => {
                    self.granted = count;
                    if let Some(line) = self.framing.line() {
                        self.control.note_pathless(line.is_pathless);
                    }
                }
                Ok(Admit::Drop(count)) => self.held.advance(count),
                Ok(Admit::More) => break,
                Err(Fault::Head(refusal)) => {
                    self.refuse(refusal);
                    break;
                }
                Err(Fault::Content(rule)) => {
                    self.end();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, rule));
                }
            }
        }
        self.note_phase();
        Ok(())
    }

    /// Nothing more is read, and the client is told why once it has its other answers.
    fn refuse(&mut self, refusal: Refusal) {
        self.control.refuse(refusal);
        self.end();
    }

    fn end(&mut self) {
        self.ended = true;
        self.held.clear();
    }

    /// A head has its own deadline, from its first octet on.
    fn note_phase(&mut self) {
        let in_head = self.framing.is_between() && !self.held.is_empty();
        if self.in_head != in_head {
            (self.in_head, self.reading) = (in_head, None);
        }
    }

    /// Reads what there is into what is held, with `scratch` for room: while nothing comes, none is
    /// taken up.
    fn poll_more(&mut self, cx: &mut Context<'_>, scratch: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = scratch.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, scratch))?;
        let came = &scratch.filled()[before..];
        self.ended = came.is_empty();
        self.held.extend_from_slice(came);
        scratch.set_filled(before);
        Poll::Ready(Ok(()))
    }

    /// Waits for the client no longer than its phase allows; then it is as if the client had ended.
    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.control.is_idle() {
            return Poll::Pending;
        }
        let limit = if self.in_head { self.deadlines.head } else { self.deadlines.idle };
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        if self.in_head {
            self.refuse(head::too_slow());
        }
        self.end();
        Poll::Ready(())
    }

    /// Reads when the connection has left HTTP: what is held first.
    fn poll_read_released(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.granted = self.held.len();
        if self.hand_over(buf) || self.ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }

    /// Looks after the client while it waits for its answer: the engine reads nothing then. A client
    /// that has reset the connection is gone, and with it goes the exchange (RFC 9112 §9.5). One
    /// that has only ended its own side may still want the answer (§9.6).
    fn poll_client(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let waits = !self.control.is_idle() && !self.control.is_answered() && !self.control.is_released();
        if !waits || !self.framing.is_between() || self.granted > 0 {
            self.probe = None;
            return Ok(());
        }
        while !self.ended && self.held.len() < LOOK_AHEAD_OCTETS_MAX {
            let mut room = [0; 1024];
            let mut scratch = ReadBuf::new(&mut room);
            match Pin::new(&mut self.stream).poll_read(cx, &mut scratch) {
                Poll::Ready(read) => read?,
                Poll::Pending => break,
            }
            self.ended = scratch.filled().is_empty();
            self.held.extend_from_slice(scratch.filled());
        }
        if self.ended {
            self.poll_probe(cx);
        }
        Ok(())
    }

    /// A client that is gone answers what it is sent with a reset, which the next write meets. There
    /// is nothing that one of HTTP/1.0 could be sent (RFC 9110 §15.2).
    fn poll_probe(&mut self, cx: &mut Context<'_>) {
        if self.framing.line().is_none_or(|line| line.minor == b'0') {
            return;
        }
        let first = || (Box::pin(sleep(HALF_CLOSED_PROBE)), HALF_CLOSED_PROBE);
        let (timer, waited) = self.probe.get_or_insert_with(first);
        if timer.as_mut().poll(cx).is_ready() {
            self.control.send_interim(CONTINUE);
            let next = *waited * 2;
            self.probe = Some((Box::pin(sleep(next)), next));
            // The new timer is yet to be polled.
            cx.waker().wake_by_ref();
        }
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
        self.watch_write(cx, poll)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let exchanges = self.control.exchanges();
        if self.exchanges != exchanges {
            (self.exchanges, self.reading) = (exchanges, None);
        }
        if self.control.is_released() {
            return self.poll_read_released(cx, buf);
        }
        loop {
            self.admit_held()?;
            if self.hand_over(buf) {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                if self.in_head {
                    self.refuse(Refusal::bad_request("the connection ended inside the request head"));
                }
                return Poll::Ready(Ok(()));
            }
            if self.poll_more(cx, buf)?.is_pending() {
                return self.poll_read_deadline(cx).map(Ok);
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.engine_wrote(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.engine_wrote(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The engine flushes each time it is polled, also when it has nothing to say.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_client(cx)?;
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

    /// When there is something to be said yet, closing is left to whoever says it.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.control.has_refusal() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
