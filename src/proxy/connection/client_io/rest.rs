//! A connection without an HTTP engine. The engine holds ten kilobytes, and is there only while it
//! has something to do: it is released when no request comes for a moment, by an end of input that
//! is not the connection's, and made anew for the next request.
//!
//! The engine is also replaced, between two messages, when a request has header names in another
//! case than the engine writes by itself: keeping the case costs a map of names for each request.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;

use super::{ClientIo, SCRATCH_BYTES};
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::limits::{ENGINE_REST, ENGINE_REST_MAX};

impl<S: ClientStream> ClientIo<S> {
    /// Waits, without an engine, for a request. False: the input has ended.
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

    /// Whether the engine has been released until the next request.
    pub const fn rests(&self) -> bool {
        self.rests
    }

    /// Whether the engine for the request that has come keeps the case of header names. A client
    /// that needs it once is likely to need it again.
    pub const fn choose_case(&mut self) -> bool {
        self.keeps_case |= !self.framing.in_title_case();
        self.keeps_case
    }

    /// Whether the engine would lose the case of names in the request that has come.
    pub(super) const fn needs_another_engine(&self) -> bool {
        self.granted > 0 && !self.keeps_case && !self.framing.in_title_case()
    }

    /// Releases the engine, for another, once it has written all of the response before.
    pub(super) fn poll_engine_change(&mut self) -> Poll<io::Result<()>> {
        self.rests = self.between_messages && self.state.is_idle();
        if self.rests { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Waits a while for a request, then releases the engine; the rest of the idle timeout is
    /// waited without it.
    pub(super) fn poll_engine_release(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let idle = self.timeouts.idle;
        let limit = self.patience().min(idle);
        ready!(self.reading.poll(limit, cx));
        self.rests = true;
        self.reading.begin(idle - limit);
        Poll::Ready(())
    }

    /// How long the engine stays without a request.
    pub(super) fn patience(&self) -> Duration {
        let exchanges = u32::try_from(self.exchanges).unwrap_or(u32::MAX).max(1);
        ENGINE_REST.saturating_mul(exchanges).min(ENGINE_REST_MAX)
    }
}
