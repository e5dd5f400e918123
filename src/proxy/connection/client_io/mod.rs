//! A client's connection as hyper sees it. hyper gets one request at a time, and
//! none whose framing could be understood in two ways ([`Framing`]). [`ClientIo`] also adds what
//! hyper lacks: timeouts for idling, for a request head and for a client that does not read;
//! interim (1xx) responses; and the detection of a client that leaves before its response.

mod disconnect;
mod hyper_release;
mod large_heads;
mod read;
#[cfg(test)]
mod tests;
mod timeouts;

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
use crate::proxy::connection::state::connection_state::ConnectionState;
use crate::proxy::framing::Framing;
use crate::runtime::lazy_timer::LazyTimer;

/// The timeouts of a client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Between two requests.
    pub idle: Duration,
    /// From the first byte of a request head to its last.
    pub head: Duration,
    /// Without reading anything of a response.
    pub write: Duration,
}

/// Bytes that are read at once when hyper offers no buffer.
const SCRATCH_BYTES: usize = 1024;

/// The stream of one client, as hyper reads and writes it.
#[derive(Debug)]
pub struct ClientIo<S> {
    stream: S,
    state: Arc<ConnectionState>,
    timeouts: Timeouts,
    framing: Framing,
    /// Bytes that were read from the client and not passed to hyper yet.
    buffer: BytesMut,
    /// How many of them have been checked: hyper may have these.
    checked: usize,
    /// Nothing more is read: the client has ended its side, or its input is refused.
    has_input_ended: bool,
    /// The client has ended its side, and all that it sent before has been read.
    has_client_ended: bool,
    phase: ReadPhase,
    /// No request has been read, or none for this `http1::Connection`: hyper sees the end of the
    /// input, and `connection::serve` goes on without it.
    is_without_hyper: bool,
    /// hyper preserves the case of header names; if not, it writes them in title case.
    preserves_case: bool,
    /// The proxy's side has been closed.
    is_shut: bool,
    /// hyper has written all that it had: its next bytes begin a message.
    between_messages: bool,
    /// The number of requests when the current phase began.
    requests: usize,
    reading: LazyTimer,
    writing: WriteStall,
    heads: Option<LargeHeads>,
    /// The timer of the next probe of a client that has ended its side, and its duration.
    probe: Option<(Pin<Box<Sleep>>, Duration)>,
}

/// What is read from the client next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadPhase {
    /// Another request.
    Between,
    /// The rest of a request's head.
    Head,
    /// More of a request's content.
    Content,
}

impl<S: ClientStream> ClientIo<S> {
    /// A connection on which nothing has been read yet.
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
            buffer: BytesMut::new(),
            checked: 0,
            has_input_ended: false,
            has_client_ended: false,
            phase: ReadPhase::Between,
            is_without_hyper: true,
            preserves_case: false,
            is_shut: false,
            between_messages: true,
            requests: 0,
            reading: LazyTimer::new(),
            writing: WriteStall::new(),
            heads: None,
            probe: None,
        }
    }

    /// The same, with `heads` to reserve memory for large heads while they arrive.
    #[must_use]
    pub fn with_large_heads(self, heads: LargeHeads) -> Self {
        Self { heads: Some(heads), ..self }
    }

    /// Whether the proxy's side is closed already, or need not be closed before the connection:
    /// once the client has ended its own side nothing can be lost, and a shutdown first is one more
    /// call.
    pub fn is_shut(&self) -> bool {
        self.is_shut || self.has_client_ended && !self.stream.has_closing_message()
    }

    /// The stream itself, when hyper no longer needs it.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// The stream, and the bytes that were read from it and not passed to hyper.
    pub fn into_parts(self) -> (S, BytesMut) {
        (self.stream, self.buffer)
    }

    /// Writes the queued interim responses. With pipelined requests, hyper may still hold the
    /// end of the previous response: an interim response would land inside it, and is dropped, as a
    /// hint may be (RFC 9110 §15.2).
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.state.interim().is_empty() {
            let state = Arc::clone(&self.state);
            if !self.between_messages {
                state.interim().clear();
                break;
            }
            ready!(state.interim().poll_write(|interim| {
                let poll = Pin::new(&mut self.stream).poll_write(cx, interim);
                self.watch_write(cx, poll)
            }))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Notes that hyper has begun to write a message, which no interim response may interrupt.
    fn hyper_wrote(
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
        self.hyper_wrote(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_interim(cx))?;
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.hyper_wrote(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes each time it is polled, also when it has written nothing.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_client(cx)?;
        ready!(self.poll_interim(cx))?;
        // hyper flushes only whole messages.
        self.between_messages = true;
        if self.state.unblock_output() {
            // Nothing else would wake hyper for the rest of the body, nor for the next
            // request, read or buffered in the meantime: that request would never get a response.
            cx.waker().wake_by_ref();
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Does nothing while a last response is due, which `connection::serve` sends before it closes,
    /// or when only hyper ends and the connection goes on.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_without_hyper || self.state.has_refused_input() || self.is_shut() {
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
        self.is_shut = true;
        Poll::Ready(Ok(()))
    }
}
