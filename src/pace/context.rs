//! The state that all lanes share: settings, clock, timer, counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::peers::Peers;
use super::stats::Stats;
use super::tick::Tick;
use super::tick_clock::TickClock;
use super::timer::Timer;
use super::visits::Visits;
use crate::runtime::clock::Clock;

#[derive(Debug)]
pub(super) struct PaceContext {
    pub config: ArcSwap<Config>,
    pub clock: TickClock,
    pub timer: Timer,
    pub stats: Stats,
    pub visits: Visits,
    pub peers: Peers,
    /// Cells made so far: the number of the next.
    pub cells: AtomicU64,
    /// Requests that wait.
    pub waiting: AtomicUsize,
    /// A long hold has begun that is not written yet.
    pub has_new_holds: AtomicBool,
}

/// A request that waits outside of all queues.
#[derive(Debug)]
pub(super) struct WaitingCount<'a>(&'a PaceContext);

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl PaceContext {
    pub(super) fn new(config: Config, clock: Arc<dyn Clock>) -> Arc<Self> {
        let clock = TickClock::new(clock);
        Arc::new(Self {
            config: ArcSwap::from_pointee(config),
            timer: Timer::new(clock.clone()),
            clock,
            stats: Stats::default(),
            visits: Visits::default(),
            peers: Peers::default(),
            cells: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            has_new_holds: AtomicBool::new(false),
        })
    }

    /// Counts a request that waits, until the count is dropped; `None`: too many do.
    pub(super) fn count_waiting(&self) -> Option<WaitingCount<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.config.load().max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(WaitingCount(self))
    }

    /// Returns when the proxy stops, if that is too early for a start at `expected`.
    pub(super) async fn stopped_before(&self, shutdown: &CancellationToken, expected: Tick) {
        shutdown.cancelled().await;
        let end = self.clock.now() + self.config.load().drain_timeout;
        if expected <= end {
            sleep_until(self.clock.instant(end)).await;
        }
    }
}
