//! The timeouts of a client's connection: when it is closed because it idles, because a request
//! head takes too long, or because the client reads nothing of a response.

use std::io;
use std::task::{Context, Poll, ready};

use super::{ClientIo, ReadPhase};
use crate::proxy::connection::client_stream::ClientStream;
use crate::proxy::framing::head;

impl<S: ClientStream> ClientIo<S> {
    /// Waits for the timeout of the phase, then ends the input. Between requests, hyper is
    /// released sooner than that.
    pub(super) fn poll_read_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
    pub(super) fn watch_write<T>(
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
