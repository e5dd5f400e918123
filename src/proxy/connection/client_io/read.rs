//! Reads from the client: bytes are checked before hyper has them, and the wait for them is
//! limited by the timeouts.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::{ClientIo, ReadPhase};
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::connection::state::target_form::TargetForm;
use crate::proxy::framing::head::encoded::Encoded;
use crate::proxy::framing::{Fault, FramingStep};
use crate::proxy::outcome::rejection::Rejection;

/// Bytes of a request's content that are read at once, until larger reads are allowed
/// ([`ConnectionState::content_reads`]). One less than hyper's buffer for them, which doubles
/// each time that it is full.
///
/// [`ConnectionState::content_reads`]:
/// crate::proxy::connection::state::connection_state::ConnectionState::content_reads
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
        if self.needs_other_header_case() {
            return self.poll_hyper_change();
        }
        self.pass_to_hyper(buf);
        Poll::Ready(Ok(()))
    }
}

impl<S: ClientStream> ClientIo<S> {
    /// Waits until there are checked bytes, which hyper may have, or the input has ended.
    pub(super) fn poll_checked(
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
    pub(super) fn refuse(&mut self, rejection: Rejection) {
        self.state.reject_input(rejection);
        self.end();
    }

    pub(super) fn end(&mut self) {
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
