//! The wait of a request for an exchange with its origin.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::exchanges::NoExchange;
use super::lane_cell::TurnGuard;
use crate::runtime::clock;

/// A request that waits for an exchange.
struct ExchangeWait<'a> {
    guard: &'a mut TurnGuard,
    granted: oneshot::Receiver<()>,
}

impl TurnGuard {
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
            state.exchanges.enqueue(&self.client, sender);
            state.exchanges.grant()
        };
        self.cell.send_exchanges(new);
        let mut waiting = ExchangeWait { guard: self, granted };
        let in_time = timeout(limit, &mut waiting.granted).await;
        waiting.guard.has_exchange = matches!(in_time, Ok(Ok(())));
        drop(waiting);
        let stats = &self.cell.context.stats;
        stats.exchange_waits.note(clock::monotonic() - since);
        if self.has_exchange {
            return Ok(());
        }
        stats.exchanges_rejected.fetch_add(1, Ordering::Relaxed);
        Err(NoExchange { max: self.cell.state.lock().exchanges.max() })
    }
}

impl Drop for ExchangeWait<'_> {
    /// An exchange that has been granted and not noticed is the guard's, and ends with it.
    fn drop(&mut self) {
        self.granted.close();
        self.guard.has_exchange |= self.granted.try_recv().is_ok();
    }
}

#[cfg(test)]
mod tests;
