//! Releases hyper while a connection is idle; `timeouts.rs` closes one that idles too long. hyper's
//! state takes ten kilobytes, and is there only while it has something to do. It is released when
//! no request comes for a moment, by an end of input that is not the connection's, and made again
//! for the next request.
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

    /// Whether the `http1::Connection` for the request that has been read preserves the case of
    /// header names. A client that needs it once is likely to need it again.
    pub const fn choose_header_case(&mut self) -> bool {
        self.preserves_case |= !self.framing.in_title_case();
        self.preserves_case
    }

    /// Whether hyper would lose the case of names in the request that has been read.
    pub(super) const fn needs_other_header_case(&self) -> bool {
        self.checked > 0 && !self.preserves_case && !self.framing.in_title_case()
    }

    /// Releases hyper, for another, once it has written all of the response before.
    pub(super) fn poll_hyper_change(&mut self) -> Poll<io::Result<()>> {
        self.is_without_hyper = self.between_messages && self.state.is_idle();
        if self.is_without_hyper { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Waits a while for a request, then releases hyper; the rest of the idle timeout is
    /// waited without it.
    pub(super) fn poll_hyper_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.timeouts.idle;
        let limit = self.hyper_idle_max().min(idle);
        ready!(self.reading.poll(limit, cx));
        self.is_without_hyper = true;
        self.reading.begin(idle - limit);
        Poll::Ready(())
    }

    /// How long hyper stays without a request.
    pub(super) fn hyper_idle_max(&self) -> Duration {
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX).max(1);
        HTTP1_STATE_IDLE.saturating_mul(requests).min(HTTP1_STATE_IDLE_MAX)
    }
}
