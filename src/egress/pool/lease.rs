//! A [`Connection`](crate::egress::connection::Connection) from the sending of a request to the end of its
//! response: it has the turn of the request, and gives the connection back to its pool.

use std::sync::Weak;

use super::Pool;
use crate::egress::body::ResponseGuard;
use crate::egress::connection::Transport;
use crate::egress::http1::LargeRead;
use crate::pace::{RequestFailure, Turn};

/// A connection, or a stream of one, in use for one exchange.
#[derive(Debug)]
pub struct Lease {
    pub transport: Transport,
    /// The pool that keeps the connection between exchanges.
    pub pool: Weak<Pool>,
    /// Whether the connection can serve another exchange.
    pub is_reusable: bool,
    /// What permits the exchange.
    pub turn: Turn,
    pub _response_guard: Option<ResponseGuard>,
}

impl Lease {
    /// Allows larger reads for the rest of a response, the largest if `large_read` is there and
    /// there is memory for them; whether there is memory for any.
    pub fn allow_larger_reads(&mut self, large_read: &mut Option<LargeRead>) -> bool {
        let Transport::Http1(connection) = &mut self.transport else { return true };
        let Some(pool) = self.pool.upgrade() else {
            *large_read = None;
            return false;
        };
        let client = self.turn.client();
        if large_read.is_some() && connection.allow_larger_reads(pool.memory(), client, true) {
            return true;
        }
        *large_read = None;
        connection.allow_larger_reads(pool.memory(), client, false)
    }

    /// Returns the connection to its pool, if it can serve another exchange. One of HTTP/2 has
    /// never left it.
    pub fn give_back(self) {
        if self.transport.wants_calm() {
            self.turn.note_failure(RequestFailure::EnhanceYourCalm);
        }
        if let Transport::Http1(connection) = self.transport
            && self.is_reusable
            && connection.is_idle()
            && let Some(pool) = self.pool.upgrade()
        {
            pool.keep(self.turn.origin(), connection);
        }
    }
}
