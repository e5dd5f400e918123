//! Reads from the client: bytes are checked before hyper has them, and the wait for them is
//! limited by the timeouts.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::{ClientIo, Phase};
use crate::proxy::client_state::target_form::TargetForm;
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::framing::head;
use crate::proxy::framing::head::encoded::Encoded;
use crate::proxy::framing::{Admit, Fault};
use crate::proxy::outcome::rejection::Rejection;

/// Bytes of a request's content that are read at once, until larger reads are allowed
/// ([`ConnectionState::content_reads`]). One less than hyper's buffer for them, which doubles
/// each time that it is full.
///
/// [`ConnectionState::content_reads`]: crate::proxy::client_state::connection_state::ConnectionState::content_reads
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
        ready!(self.poll_granted(cx, buf))?;
        if self.needs_other_header_case() {
            return self.poll_hyper_change();
        }
        self.hand_over(buf);
        Poll::Ready(Ok(()))
    }
}

impl<S: ClientStream> ClientIo<S> {
    /// Waits until there are bytes that hyper may have, or the input has ended.
    pub(super) fn poll_granted(
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
            self.admit_held()?;
            if self.granted > 0 {
                return Poll::Ready(Ok(()));
            }
            if self.ended {
                if self.phase == Phase::Head {
                    self.refuse(Rejection::bad_request(
                        "the connection ended inside the request head",
                    ));
                }
                return Poll::Ready(Ok(()));
            }
            if self.poll_more(cx, scratch)?.is_pending() {
                return self.poll_read_deadline(cx).map(Ok);
            }
        }
    }

    /// Hands hyper bytes of one request; false if there are none that it may have.
    fn hand_over(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let count = self.granted.min(buf.remaining());
        buf.put_slice(&self.held[..count]);
        self.held.advance(count);
        self.granted -= count;
        if self.held.is_empty() {
            // An idle connection keeps no buffer.
            self.held = BytesMut::new();
            if let Some(heads) = &mut self.heads {
                heads.clear();
            }
        }
        count > 0
    }

    /// Checks the held bytes. After a fault in them, nothing more of this client is taken for a
    /// request (RFC 9112 §11.2). After a faulty head, hyper sees the end of the input, and
    /// `connection::serve` sends the rejection; a faulty body ends in an error.
    fn admit_held(&mut self) -> io::Result<()> {
        while self.granted == 0 {
            let is_head = self.framing.is_between();
            match self.framing.admit(&mut self.held) {
                Ok(Admit::Pass(count)) => {
                    self.granted = count;
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
                Ok(Admit::Drop(count)) => self.held.advance(count),
                Ok(Admit::More) => break,
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
        if self.phase == Phase::Head
            && let Some(heads) = &mut self.heads
            && let Err(refused) = heads.note(self.held.len())
        {
            self.refuse(refused.into());
        }
        Ok(())
    }

    /// Puts the encoded head in place of the one that was granted.
    fn encode(&mut self, encoded: Encoded) {
        let Encoded { head, path_as_received } = encoded;
        let rest = self.held.split_off(self.granted);
        self.granted = head.len();
        self.held = BytesMut::from(&head[..]);
        self.held.unsplit(rest);
        self.state.target_form().set(TargetForm::Encoded(path_as_received));
    }

    /// Reads nothing more. The client gets the rejection after the responses that are still due.
    fn refuse(&mut self, rejection: Rejection) {
        self.state.reject_input(rejection);
        self.end();
    }

    fn end(&mut self) {
        self.ended = true;
        self.held = BytesMut::new();
        if let Some(heads) = &mut self.heads {
            heads.clear();
        }
    }

    /// Updates the phase. A new phase has a new timeout; that of a head runs from its first byte.
    fn note_phase(&mut self) {
        let phase = match (self.framing.is_between(), self.held.is_empty()) {
            (true, true) => Phase::Between,
            (true, false) => Phase::Head,
            (false, _) => Phase::Content,
        };
        if self.phase != phase {
            self.phase = phase;
            self.reading.clear();
        }
    }

    /// Appends the bytes that have come to the held ones. They are read into `scratch`, so that no
    /// memory is allocated while nothing comes.
    fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        scratch: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.phase == Phase::Content && !self.state.content_reads().is_large() {
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
        let came = &scratch.filled()[before..];
        if came.is_empty() && self.phase == Phase::Between {
            self.state.end_input();
        }
        read?;
        self.has_left = came.is_empty();
        self.ended = self.has_left;
        self.held.extend_from_slice(came);
        scratch.set_filled(before);
        Poll::Ready(Ok(()))
    }

    /// Waits for the timeout of the phase, then ends the input. Between requests, hyper is
    /// released sooner than that.
    fn poll_read_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.state.is_idle() {
            return Poll::Pending;
        }
        if self.phase == Phase::Between && !self.rests {
            return self.poll_hyper_release(cx);
        }
        let is_head = self.phase == Phase::Head;
        let limit = if is_head { self.timeouts.head } else { self.timeouts.idle };
        ready!(self.reading.poll(limit, cx));
        if is_head {
            self.refuse(head::too_slow());
        } else {
            self.end();
        }
        Poll::Ready(())
    }

    /// Reads for a connection that has left HTTP: the held bytes first.
    fn poll_read_released(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.granted = self.held.len();
        if self.hand_over(buf) || self.ended {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}
