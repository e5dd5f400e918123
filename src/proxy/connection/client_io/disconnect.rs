//! Detects that a client has left before its response. hyper reads nothing at that time.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::sleep;

use crate::proxy::connection::state::connection_state::{CONTINUE, RequestPhase};

use super::{ClientIo, SCRATCH_BYTES};
use crate::proxy::connection::client_stream::ClientStream;

/// The time from the end of the client's side of the connection to the first probe of whether the
/// client is still there. Doubled after each probe.
const HALF_CLOSED_PROBE: Duration = Duration::from_millis(500);

/// Bytes that are read ahead while a request is under way, to detect that the client has left.
const LOOK_AHEAD_BYTES_MAX: usize = 16 << 10;

impl<S: ClientStream> ClientIo<S> {
    /// Reads ahead while the client waits for its response. A reset ends the request (RFC 9112
    /// §9.5). A client that has only ended its own side may still want the response (§9.6).
    pub(super) fn poll_client(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
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
