//! A connection without hyper. hyper's state takes ten kilobytes, and is there only while it
//! has something to do: it is released when no request comes for a moment, by an end of input that
//! is not the connection's, and made again for the next request.
//!
//! hyper is also replaced, between two messages, when a request has header names in another
//! case than hyper writes by itself: keeping the case costs a map of names for each request.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::{ClientIo, SCRATCH_BYTES};
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::limits::{HTTP1_STATE_IDLE, HTTP1_STATE_IDLE_MAX};

impl<S: ClientStream> ClientIo<S> {
    /// Waits, without hyper, for a request. False: the input has ended.
    ///
    /// # Errors
    ///
    /// Those of the stream.
    pub async fn request(&mut self) -> io::Result<bool> {
        poll_fn(|cx| {
            let mut room = [const { MaybeUninit::uninit() }; SCRATCH_BYTES];
            ready!(self.poll_granted(cx, &mut ReadBuf::uninit(&mut room)))?;
            self.rests = self.granted == 0;
            Poll::Ready(Ok(!self.rests))
        })
        .await
    }

    /// Whether hyper has been released until the next request.
    pub const fn rests(&self) -> bool {
        self.rests
    }

    /// Whether the `http1::Connection` for the request that has come keeps the case of header names. A client
    /// that needs it once is likely to need it again.
    pub const fn choose_case(&mut self) -> bool {
        self.keeps_case |= !self.framing.in_title_case();
        self.keeps_case
    }

    /// Whether hyper would lose the case of names in the request that has come.
    pub(super) const fn needs_other_header_case(&self) -> bool {
        self.granted > 0 && !self.keeps_case && !self.framing.in_title_case()
    }

    /// Releases hyper, for another, once it has written all of the response before.
    pub(super) fn poll_hyper_change(&mut self) -> Poll<io::Result<()>> {
        self.rests = self.between_messages && self.state.is_idle();
        if self.rests { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Waits a while for a request, then releases hyper; the rest of the idle timeout is
    /// waited without it.
    pub(super) fn poll_hyper_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.timeouts.idle;
        let limit = self.hyper_idle_max().min(idle);
        ready!(self.reading.poll(limit, cx));
        self.rests = true;
        self.reading.begin(idle - limit);
        Poll::Ready(())
    }

    /// How long hyper stays without a request.
    pub(super) fn hyper_idle_max(&self) -> Duration {
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX).max(1);
        HTTP1_STATE_IDLE.saturating_mul(requests).min(HTTP1_STATE_IDLE_MAX)
    }
}
