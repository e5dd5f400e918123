//! The limit on exchanges with one origin (`egress.max_per_origin`), over all workers, and its fair
//! use: a client that waits gets one in turn with the other clients, however many requests each has
//! waiting, and no client can have all of them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::cell::{Cell, Seat};
use crate::clients::Turns;
use crate::runtime::clock;
use crate::types::client_key::ClientKey;

/// The exchanges with one origin that are under way, and the requests that wait for one.
#[derive(Debug)]
pub(super) struct Exchanges {
    turns: Turns<oneshot::Sender<()>>,
    max: usize,
}

/// The clients that have an exchange now, and how their requests learn that.
pub(super) type NewExchanges = Vec<(ClientKey, oneshot::Sender<()>)>;

/// No exchange ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoExchange {
    /// The exchanges that may be under way at one time.
    pub max: usize,
}

/// A request that waits for an exchange.
struct Waiting<'a> {
    seat: &'a mut Seat,
    granted: oneshot::Receiver<()>,
}

impl Exchanges {
    /// Of at most `max` at a time.
    pub(super) fn new(max: usize) -> Self {
        Self { turns: Turns::default(), max }
    }

    /// Takes one for `client`, if one is free and no request waits for it: the common case.
    pub(super) fn take(&mut self, client: &ClientKey) -> bool {
        self.turns.take(client, self.max)
    }

    /// Ends one of `client`. To be followed by [`Self::grant`].
    pub(super) fn release(&mut self, client: &ClientKey) {
        self.turns.release(client);
    }

    pub(super) const fn resize(&mut self, max: usize) {
        self.max = max;
    }

    /// Grants what is free to those that wait.
    pub(super) fn grant(&mut self) -> NewExchanges {
        std::iter::from_fn(|| self.turns.next(self.max, oneshot::Sender::is_closed)).collect()
    }

    /// Whether any request waits.
    pub(super) fn is_contended(&self) -> bool {
        self.turns.is_contended()
    }

    /// The number under way, and of the requests that wait.
    pub(super) fn counts(&self) -> (usize, usize) {
        let waiting = self.turns.waiting().filter(|waiter| !waiter.is_closed());
        (self.turns.in_use(), waiting.count())
    }
}

impl Cell {
    /// Tells requests that they have an exchange. Must be called without the lock: one whose request
    /// has left goes to the next.
    pub(super) fn hand_over_exchanges(&self, mut granted: NewExchanges) {
        while let Some((client, waiter)) = granted.pop() {
            if waiter.send(()).is_err() {
                let mut state = self.state.lock();
                state.exchanges.release(&client);
                granted.extend(state.exchanges.grant());
            }
        }
    }
}

impl Seat {
    /// Waits for an exchange, at most for `limit`.
    ///
    /// # Errors
    ///
    /// There was none in time.
    pub(super) async fn wait_for_exchange(&mut self, limit: Duration) -> Result<(), NoExchange> {
        let since = clock::monotonic();
        let (sender, granted) = oneshot::channel();
        let new = {
            let mut state = self.cell.state.lock();
            state.exchanges.turns.enter(&self.client, sender, oneshot::Sender::is_closed);
            state.exchanges.grant()
        };
        self.cell.hand_over_exchanges(new);
        let mut waiting = Waiting { seat: self, granted };
        let in_time = timeout(limit, &mut waiting.granted).await;
        waiting.seat.has_exchange = matches!(in_time, Ok(Ok(())));
        drop(waiting);
        let stats = &self.cell.shared.stats;
        stats.exchange_waits.note(clock::monotonic() - since);
        if self.has_exchange {
            return Ok(());
        }
        stats.exchanges_rejected.fetch_add(1, Ordering::Relaxed);
        Err(NoExchange { max: self.cell.state.lock().exchanges.max })
    }
}

impl Drop for Waiting<'_> {
    /// An exchange that has been granted and not noticed is the seat's, and ends with it.
    fn drop(&mut self) {
        self.granted.close();
        self.seat.has_exchange |= self.granted.try_recv().is_ok();
    }
}

#[cfg(test)]
mod tests;
