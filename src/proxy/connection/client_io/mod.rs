//! A client's connection as the HTTP engine sees it. The engine gets one request at a time, and none
//! whose framing could be understood in two ways ([`Framing`]). Besides, the wire adds what the
//! engine lacks: timeouts for idling, for a request head and for a client that does not read;
//! interim (1xx) responses; and an eye on a client that leaves before it is answered.

mod disconnect;
mod large_heads;
mod read;
mod rest;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWrite;
use tokio::time::Sleep;

pub use large_heads::LargeHeads;

use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::connection::send_backlog::WriteStall;
use crate::proxy::exchange::connection_state::ConnectionState;
use crate::proxy::framing::Framing;
use crate::runtime::lazy_timer::LazyTimer;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub idle: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// Without reading anything of a response.
    pub write: Duration,
}

/// Bytes that are read at once where the engine offers no room.
const SCRATCH_BYTES: usize = 1024;

/// The stream of one client.
#[derive(Debug)]
pub struct ClientIo<S> {
    stream: S,
    state: Arc<ConnectionState>,
    timeouts: Timeouts,
    framing: Framing,
    /// What the engine has not been given yet.
    held: BytesMut,
    /// How many bytes of it the engine may have.
    granted: usize,
    /// Nothing more comes from the client, or nothing more is wanted of it.
    ended: bool,
    /// The client has ended its side, and whatever it sent before has been read.
    has_left: bool,
    phase: Phase,
    /// Nothing is asked, or not of this engine: it sees an end, and whoever serves the connection goes on
    /// without it.
    rests: bool,
    /// The engine keeps the case of field names; if not, it writes them in title case.
    keeps_case: bool,
    /// Our side has been closed.
    is_shut: bool,
    /// The engine has handed over all it had: whatever it writes next begins a message.
    between_messages: bool,
    /// How many requests had been read when the current phase began.
    exchanges: usize,
    reading: LazyTimer,
    writing: WriteStall,
    heads: Option<LargeHeads>,
    /// The next probe of a client that has ended its side, and how long it was waited for.
    probe: Option<(Pin<Box<Sleep>>, Duration)>,
}

/// What a client is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Another request.
    Between,
    /// The rest of a request's head.
    Head,
    /// More of its content.
    Content,
}

impl<S: ClientStream> ClientIo<S> {
    pub fn new(
        stream: S,
        state: Arc<ConnectionState>,
        timeouts: Timeouts,
        framing: Framing,
    ) -> Self {
        Self {
            stream,
            state,
            timeouts,
            framing,
            held: BytesMut::new(),
            granted: 0,
            ended: false,
            has_left: false,
            phase: Phase::Between,
            rests: true,
            keeps_case: false,
            is_shut: false,
            between_messages: true,
            exchanges: 0,
            reading: LazyTimer::new(),
            writing: WriteStall::new(),
            heads: None,
            probe: None,
        }
    }

    /// Large heads take memory of `heads` while they come.
    #[must_use]
    pub fn holding(self, heads: LargeHeads) -> Self {
        Self { heads: Some(heads), ..self }
    }

    /// Whether our side is closed already, or best with the connection: once the client has ended its own, there is
    /// nothing that could be lost by that, and to close our side first is one call more.
    pub fn is_shut(&self) -> bool {
        self.is_shut || self.has_left && !self.stream.has_closing_message()
    }

    /// The stream itself, when the engine is done with it.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// The stream, and what has been read of it that nobody has had yet.
    pub fn into_parts(self) -> (S, BytesMut) {
        (self.stream, self.held)
    }

    /// Passes a pending write on, or fails when the client has not read for too long.
    fn watch_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.writing.clear();
            return poll;
        }
        let limit = self.timeouts.write;
        ready!(self.writing.poll(&self.stream, limit, cx));
        let reason = format!("the client has read nothing for {limit:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, reason)))
    }

    /// Writes what interim responses there are. A client may have asked for more while the engine
    /// still holds the end of the response before: an interim response has no place in there, and
    /// is dropped, as a hint may be (RFC 9110 §15.2).
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.state.has_interim() {
            let state = Arc::clone(&self.state);
            if !self.between_messages {
                state.discard_interim();
                break;
            }
            ready!(state.poll_write_interim(|interim| {
                let poll = Pin::new(&mut self.stream).poll_write(cx, interim);
                self.watch_write(cx, poll)
            }))?;
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
        if poll.is_pending() {
            self.state.block_output();
        }
        self.watch_write(cx, poll)
    }
}

impl<S: ClientStream> AsyncWrite for ClientIo<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
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
        if self.state.unblock_output() {
            // Nothing else would wake the engine for the rest of the body, nor for a request that it has
            // read while this was not yet written, or has not been given: it would never be answered.
            cx.waker().wake_by_ref();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// When there is something to be said yet, closing is left to whoever says it; and the engine's end
    /// may not be that of the connection.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.rests || self.state.has_refused_input() || self.is_shut() {
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }
}
