//! A client's connection as hyper sees it. hyper gets one request at a time, and
//! none whose framing could be understood in two ways (`Framing`). [`ClientIo`] also adds what
//! hyper lacks: timeouts for idling, for a request head and for a client that does not read;
//! interim (1xx) responses; and the detection of a client that leaves before its response.

#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::client_socket::{ClientStream, WriteStall};
use super::connection_state::{CONTINUE, ConnectionState, RequestPhase, TargetForm};
use crate::clients::{BodyMemory, MemoryPermit, RejectReason};
use crate::proxy::framing::head::{self, Encoded};
use crate::proxy::framing::{Fault, Framing, FramingStep};
use crate::proxy::rejection::Rejection;
use crate::proxy::{HTTP1_STATE_IDLE, HTTP1_STATE_IDLE_MAX};
use crate::runtime::lazy_timer::LazyTimer;
use crate::types::ClientKey;

/// The timeouts of a client's connection: when it is closed because it idles, because a request head
/// takes too long, or because the client reads nothing of a response.
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
    /// No request has been read: hyper sees the end of the input, and `connection::serve` goes on without it.
    is_without_hyper: bool,
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

/// Bytes of a request's content that are read at once, until larger reads are allowed
/// ([`ConnectionState::content_reads`]). One less than hyper's buffer for them, which doubles
/// each time that it is full.
///
/// [`ConnectionState::content_reads`]:
/// crate::proxy::connection::connection_state::ConnectionState::content_reads
const CONTENT_READ_BYTES: usize = (8 << 10) - 1;

impl<S: ClientStream> AsyncRead for ClientIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.state.is_upgraded() {
            return self.poll_read_released(cx, buf);
        }
        ready!(self.poll_checked(cx, buf))?;
        self.pass_to_hyper(buf);
        Poll::Ready(Ok(()))
    }
}

impl<S: ClientStream> ClientIo<S> {
    /// Waits until there are checked bytes, which hyper may have, or the input has ended.
    fn poll_checked(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let requests = self.state.requests();
        if self.requests != requests {
            self.requests = requests;
            self.reading.clear();
        }
        loop {
            self.check_buffer()?;
            if self.checked > 0 {
                return Poll::Ready(Ok(()));
            }
            if self.has_input_ended {
                if self.phase == ReadPhase::Head {
                    self.refuse(Rejection::bad_request(
                        "the connection ended inside the request head",
                    ));
                }
                return Poll::Ready(Ok(()));
            }
            if self.poll_more(cx, scratch)?.is_pending() {
                return self.poll_read_timeout(cx).map(Ok);
            }
        }
    }

    /// Passes checked bytes of one request to hyper; false if there are none.
    fn pass_to_hyper(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.checked.min(buf.remaining());
        buf.put_slice(&self.buffer[..count]);
        self.buffer.advance(count);
        self.checked -= count;
        if self.buffer.is_empty() {
            // An idle connection keeps no buffer.
            self.buffer = BytesMut::new();
            if let Some(heads) = &mut self.heads {
                heads.clear();
            }
        }
        count > 0
    }

    /// Checks the bytes in the buffer. After a fault in them, nothing more of this client is taken
    /// for a request (RFC 9112 §11.2). After a faulty head, hyper sees the end of the input, and
    /// `connection::serve` sends the rejection; a faulty body ends in an error.
    fn check_buffer(&mut self) -> io::Result<()> {
        while self.checked == 0 {
            let is_head = self.framing.is_between_requests();
            match self.framing.check(&mut self.buffer) {
                Ok(FramingStep::Pass(count)) => {
                    self.checked = count;
                    if is_head {
                        let is_pathless = self.framing.line().is_some_and(|line| line.is_pathless);
                        self.state.target_form().set(if is_pathless {
                            TargetForm::Pathless
                        } else {
                            TargetForm::Plain
                        });
                    }
                    if let Some(encoded) = self.framing.take_encoded() {
                        self.encode(encoded);
                    }
                }
                Ok(FramingStep::Discard(count)) => self.buffer.advance(count),
                Ok(FramingStep::ReadMore) => break,
                Err(Fault::Head(rejection)) => {
                    self.refuse(rejection);
                    break;
                }
                Err(Fault::Content(rule)) => {
                    self.end();
                    return Err(io::Error::new(io::ErrorKind::InvalidData, rule));
                }
            }
        }
        self.note_phase();
        if self.phase == ReadPhase::Head
            && let Some(heads) = &mut self.heads
            && let Err(refused) = heads.note(self.buffer.len())
        {
            self.refuse(refused.into());
        }
        Ok(())
    }

    /// Puts the encoded head in place of the one that was checked.
    fn encode(&mut self, encoded: Encoded) {
        let Encoded { head, path_as_received } = encoded;
        let rest = self.buffer.split_off(self.checked);
        self.checked = head.len();
        self.buffer = BytesMut::from(&head[..]);
        self.buffer.unsplit(rest);
        self.state.target_form().set(TargetForm::Encoded(path_as_received));
    }

    /// Reads nothing more. The client gets the rejection after the responses that are still due.
    fn refuse(&mut self, rejection: Rejection) {
        self.state.reject_input(rejection);
        self.end();
    }

    fn end(&mut self) {
        self.has_input_ended = true;
        self.buffer = BytesMut::new();
        if let Some(heads) = &mut self.heads {
            heads.clear();
        }
    }

    /// Updates the phase. A new phase has a new timeout; that of a head runs from its first byte.
    fn note_phase(&mut self) {
        let phase = match (self.framing.is_between_requests(), self.buffer.is_empty()) {
            (true, true) => ReadPhase::Between,
            (true, false) => ReadPhase::Head,
            (false, _) => ReadPhase::Content,
        };
        if self.phase != phase {
            self.phase = phase;
            self.reading.clear();
        }
    }

    /// Reads more bytes into the buffer. They are read into `scratch`, so that no
    /// memory is allocated while nothing comes.
    fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.phase == ReadPhase::Content && !self.state.content_reads().is_large() {
            let mut room = [const { MaybeUninit::uninit() }; CONTENT_READ_BYTES];
            return self.poll_some(cx, &mut ReadBuf::uninit(&mut room));
        }
        self.poll_some(cx, scratch)
    }

    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = scratch.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, scratch));
        let new = &scratch.filled()[before..];
        if new.is_empty() && self.phase == ReadPhase::Between {
            self.state.end_input();
        }
        read?;
        self.has_client_ended = new.is_empty();
        self.has_input_ended = self.has_client_ended;
        self.buffer.extend_from_slice(new);
        scratch.set_filled(before);
        Poll::Ready(Ok(()))
    }

    /// Reads for a connection that has left HTTP: the bytes in the buffer first.
    fn poll_read_released(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.checked = self.buffer.len();
        if self.pass_to_hyper(buf) || self.has_input_ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

/// The time from the end of the client's side of the connection to the first probe of whether the
/// client is still there. Doubled after each probe.
const HALF_CLOSED_PROBE: Duration = Duration::from_millis(500);

/// Bytes that are read ahead while a request is under way, to detect that the client has left.
const LOOK_AHEAD_BYTES_MAX: usize = 16 << 10;

impl<S: ClientStream> ClientIo<S> {
    /// Reads ahead while the client waits for its response. A reset ends the request (RFC 9112
    /// §9.5). A client that has only ended its own side may still want the response (§9.6).
    fn poll_client(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let waits = self.state.phase() == RequestPhase::Handling;
        if !waits || !self.framing.is_between_requests() || self.checked > 0 {
            self.probe = None;
            return Ok(());
        }
        while !self.has_input_ended && self.buffer.len() < LOOK_AHEAD_BYTES_MAX {
            let mut room = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
            let mut scratch = ReadBuf::uninit(&mut room);
            match Pin::new(&mut self.stream).poll_read(cx, &mut scratch) {
                Poll::Ready(read) => read?,
                Poll::Pending => break,
            }
            self.has_client_ended = scratch.filled().is_empty();
            self.has_input_ended = self.has_client_ended;
            self.buffer.extend_from_slice(scratch.filled());
        }
        if self.has_input_ended {
            self.poll_probe(cx);
        }
        Ok(())
    }

    /// Sends a probe when one is due. The system of a client that is gone answers it with a reset,
    /// and the next write fails. An HTTP/1.0 client cannot be probed: it knows no interim responses
    /// (RFC 9110 §15.2).
    fn poll_probe(&mut self, cx: &mut Context<'_>) {
        if self.framing.line().is_none_or(|line| line.minor == b'0') {
            return;
        }
        self.state.note_half_closed();
        let first = || (Box::pin(sleep(HALF_CLOSED_PROBE)), HALF_CLOSED_PROBE);
        let (timer, waited) = self.probe.get_or_insert_with(first);
        if timer.as_mut().poll(cx).is_ready() {
            self.state.interim().push(CONTINUE);
            let next = *waited * 2;
            self.probe = Some((Box::pin(sleep(next)), next));
            // The new timer has not been polled, and would not wake this task.
            cx.waker().wake_by_ref();
        }
    }
}

impl<S: ClientStream> ClientIo<S> {
    /// Waits for the timeout of the phase, then ends the input. Between requests, hyper is
    /// released sooner than that.
    fn poll_read_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.state.is_idle() {
            return Poll::Pending;
        }
        if self.phase == ReadPhase::Between && !self.is_without_hyper {
            return self.poll_hyper_release(cx);
        }
        let is_head = self.phase == ReadPhase::Head;
        let limit = if is_head { self.timeouts.head } else { self.timeouts.idle };
        ready!(self.reading.poll(limit, cx));
        if is_head {
            self.refuse(head::too_slow());
        } else {
            self.end();
        }
        Poll::Ready(())
    }

    /// Passes on the result of a write. A pending one fails when the client has read nothing for
    /// the write timeout.
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
}

impl<S: ClientStream> ClientIo<S> {
    /// Waits, without hyper, for the next request. False: the input has ended.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub async fn wait_for_request(&mut self) -> io::Result<bool> {
        poll_fn(|cx| {
            let mut room = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
            ready!(self.poll_checked(cx, &mut ReadBuf::uninit(&mut room)))?;
            self.is_without_hyper = self.checked == 0;
            Poll::Ready(Ok(!self.is_without_hyper))
        })
        .await
    }

    /// Whether hyper has been released until the next request.
    pub const fn is_without_hyper(&self) -> bool {
        self.is_without_hyper
    }

    /// Waits a while for a request, then releases hyper, by an end of input that is not the
    /// connection's; the rest of the idle timeout is waited without it. hyper's state takes ten
    /// kilobytes, and is made again for the next request.
    fn poll_hyper_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.timeouts.idle;
        let limit = self.hyper_idle_max().min(idle);
        ready!(self.reading.poll(limit, cx));
        self.is_without_hyper = true;
        self.reading.begin(idle - limit);
        Poll::Ready(())
    }

    /// How long hyper stays without a request.
    fn hyper_idle_max(&self) -> Duration {
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX).max(1);
        HTTP1_STATE_IDLE.saturating_mul(requests).min(HTTP1_STATE_IDLE_MAX)
    }
}

/// Bytes of a head that every connection may buffer. Most heads are a tenth of that.
const ORDINARY_BYTES: usize = 8 << 10;

/// The buffer of a head doubles when it is full.
const GROWTH: usize = 2;

/// The memory reserved for the large heads of one connection that have not arrived whole. The bytes
/// of an ordinary head are part of what every connection may buffer; for a large one, memory of the
/// requests under way is reserved before it is such a request.
#[derive(Debug)]
pub struct LargeHeads {
    client: ClientKey,
    memory: Arc<BodyMemory>,
    head_max: usize,
    permit: Option<MemoryPermit>,
}

impl LargeHeads {
    /// For heads of at most `head_max` bytes from `client`. Nothing is reserved yet.
    pub fn new(client: ClientKey, memory: &Arc<BodyMemory>, head_max: usize) -> Self {
        Self { client, memory: Arc::clone(memory), head_max, permit: None }
    }

    /// Notes how many bytes of a head have arrived, and reserves memory for a large one.
    ///
    /// # Errors
    ///
    /// [`RejectReason::Memory`] if the head is large and there is no memory for it.
    fn note(&mut self, bytes: usize) -> Result<(), RejectReason> {
        if bytes > ORDINARY_BYTES && self.permit.is_none() {
            self.permit = Some(self.memory.reserve(&self.client, GROWTH * self.head_max)?);
        }
        Ok(())
    }

    /// Releases the memory: no bytes of a head are buffered.
    fn clear(&mut self) {
        self.permit = None;
    }
}

#[cfg(test)]
mod large_heads_tests {
    use super::*;

    #[test]
    fn only_a_large_head_reserves_memory_and_gives_it_back() {
        const HEAD_MAX: usize = 64 << 10;
        let memory = Arc::new(BodyMemory::new(3 * HEAD_MAX));
        let (mut one, mut other) = (
            LargeHeads::new(ClientKey::Proxy, &memory, HEAD_MAX),
            LargeHeads::new(ClientKey::Proxy, &memory, HEAD_MAX),
        );
        assert_eq!((one.note(ORDINARY_BYTES), memory.counts().0), (Ok(()), 0));
        assert_eq!((one.note(ORDINARY_BYTES + 1), one.note(HEAD_MAX)), (Ok(()), Ok(())));
        assert_eq!(memory.counts().0, 2 * HEAD_MAX);
        assert!(other.note(HEAD_MAX).is_err());
        one.clear();
        assert_eq!((other.note(HEAD_MAX), memory.counts().0), (Ok(()), 2 * HEAD_MAX));
        drop(other);
        assert_eq!(memory.counts().0, 0);
    }
}
