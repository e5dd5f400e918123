//! The idle timeout of a tunnel, and which side sent last.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::debug;

use crate::runtime::clock;
use crate::runtime::lock::Lock;
use tokio_util::sync::CancellationToken;

/// The idle timeout of a tunnel once the proxy shuts down. A tunnel may stay open for hours without
/// data, and would otherwise take all of the drain timeout.
const DRAIN_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// An end of a tunnel.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    Client,
    Origin,
}

/// Ends a tunnel that moves no data. Data in either direction keeps both open.
#[derive(Debug)]
pub struct IdleTimer {
    timeout: Duration,
    shutdown: CancellationToken,
    last_activity: Lock<Instant>,
    /// The [`Side`] that sent last.
    last_sender: AtomicU8,
}

impl IdleTimer {
    /// Ends after `timeout` without data, and after a second without data once `shutdown` is
    /// triggered.
    pub fn new(timeout: Duration, shutdown: CancellationToken) -> Self {
        let last_activity = Lock::new(clock::monotonic());
        Self { timeout, shutdown, last_activity, last_sender: AtomicU8::new(Side::Client as u8) }
    }

    /// Starts the timeout again: data was read or written.
    pub fn note_activity(&self) {
        *self.last_activity.lock() = clock::monotonic();
    }

    /// Makes `side` the last sender; true if it was the other one before.
    pub fn note_sender(&self, side: Side) -> bool {
        self.last_sender.swap(side as u8, Ordering::Relaxed) != side as u8
    }

    /// Runs both directions of a tunnel until both end, one fails, or no data moves for too long.
    ///
    /// # Errors
    ///
    /// The error of the direction that failed first. The idle timeout is no error.
    pub async fn run(
        &self,
        to_origin: impl Future<Output = io::Result<()>>,
        to_client: impl Future<Output = io::Result<()>>,
    ) -> io::Result<()> {
        let both = async { tokio::try_join!(to_origin, to_client).map(drop) };
        tokio::select! {
            ended = both => ended,
            () = self.expired() => Ok(()),
        }
    }

    /// Returns at the idle timeout. One timer serves both directions; data does not reset it, so
    /// that a byte costs no timer operation.
    async fn expired(&self) {
        tokio::select! {
            () = self.idle_for(self.timeout) => {
                debug!("a tunnel without data for {:?} is closed", self.timeout);
            }
            () = async { self.shutdown.cancelled().await; self.idle_for(DRAIN_IDLE_TIMEOUT).await } => {
                debug!("an idle tunnel is closed: the proxy shuts down");
            }
        }
    }

    async fn idle_for(&self, limit: Duration) {
        loop {
            let idle = clock::monotonic().duration_since(*self.last_activity.lock());
            match limit.checked_sub(idle) {
                None | Some(Duration::ZERO) => return,
                Some(left) => sleep(left).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sender_changes_when_a_side_sends_after_the_other() {
        let idle = IdleTimer::new(Duration::ZERO, CancellationToken::new());
        let sent = [
            (Side::Client, false),
            (Side::Origin, true),
            (Side::Origin, false),
            (Side::Client, true),
        ];
        for (side, is_change) in sent {
            assert_eq!(idle.note_sender(side), is_change, "{side:?}");
        }
    }
}
