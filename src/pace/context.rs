//! The state that all lanes share: settings, clock, timer, counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::config::{Away, Config, WAITING_MAX};
use super::hold::Hold;
use super::lane::Share;
use super::listener::{HoldBegun, PaceListener, PaceLog, Waiting};
use super::no_turn::Waited;
use super::stats::Stats;
use super::tick::Tick;
use super::timer::{TickClock, Timer};
use super::visits::Visits;
use crate::engine::Engine;
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

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
    /// Learns of waits and holds, once it is set; before that they are logged.
    listener: OnceLock<Arc<dyn PaceListener>>,
    log: PaceLog,
}

/// A request that waits outside of all queues.
#[derive(Debug)]
pub(super) struct WaitingCount<'a>(&'a PaceContext);

impl Drop for WaitingCount<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A wait that the listener knows of; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct ToldWait<'a> {
    context: &'a PaceContext,
    origin: &'a Origin,
}

impl Drop for ToldWait<'_> {
    fn drop(&mut self) {
        self.context.listener().wait_ended(self.origin);
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
            listener: OnceLock::new(),
            log: PaceLog::default(),
        })
    }

    /// Tells of a wait, until what it returns is dropped.
    pub(super) fn tell_wait<'a>(&'a self, origin: &'a Origin, expected: Waited) -> ToldWait<'a> {
        self.listener().wait_began(&Waiting { origin, expected });
        ToldWait { context: self, origin }
    }

    /// Tells of a hold.
    pub(super) fn tell_hold(&self, origin: &Origin, hold: Option<Hold>, now: Tick) {
        if let Some(hold) = hold {
            self.listener().hold_began(origin, HoldBegun::of(hold, now));
        }
    }

    /// Who learns of waits and holds.
    pub(super) fn listener(&self) -> &dyn PaceListener {
        self.listener.get().map_or(&self.log as _, |listener| &**listener)
    }

    /// Sets who learns of them, unless it is set.
    pub(super) fn set_listener(&self, listener: Arc<dyn PaceListener>) {
        let _ = self.listener.set(listener);
    }

    /// Counts a request that waits, until the count is dropped; `None`: too many do.
    pub(super) fn count_waiting(&self) -> Option<WaitingCount<'_>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(WaitingCount(self))
    }

    /// Returns when the proxy stops, if that is too early for the start that is expected then.
    pub(super) async fn stopped_before(
        &self,
        shutdown: &CancellationToken,
        expected: impl FnOnce() -> Tick,
    ) {
        shutdown.cancelled().await;
        let end = self.clock.now() + self.config.load().drain_timeout;
        if expected() <= end {
            sleep_until(self.clock.instant(end)).await;
        }
    }
}

// The engine through which several proxies share the pace of origins, and this proxy's part of the
// requests under way while it is away.

/// The engine, once it is set, and this proxy's part while it is away.
#[derive(Debug)]
pub(super) struct Peers {
    engine: OnceLock<Arc<dyn Engine>>,
    /// The part of a lane that is new.
    share: Lock<Share>,
}

impl Default for Peers {
    fn default() -> Self {
        Self { engine: OnceLock::new(), share: Lock::new(Share::ALONE) }
    }
}

impl Peers {
    /// Sets the engine, unless there is one.
    pub(super) fn set(&self, engine: Arc<dyn Engine>) {
        let _ = self.engine.set(engine);
    }

    pub(super) fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.get()
    }

    /// The part of a lane that is new.
    pub(super) fn share(&self) -> Share {
        *self.share.lock()
    }

    /// Brings the part of this proxy up to date with what is known of the engine. Returns it if it
    /// has changed.
    pub(super) fn update(&self, away: Away) -> Option<Share> {
        let status = self.engine.get()?.status();
        let rank = status.rank.filter(|_| !status.is_up && away == Away::Share);
        let mut share = self.share.lock();
        if share.rank == rank {
            return None;
        }
        *share = Share { rank, ..Share::ALONE };
        Some(*share)
    }

    /// Whether paced requests are refused, because the engine is away and the settings say so.
    pub(super) fn refuses_while_away(&self, away: Away) -> bool {
        away == Away::Stop && self.engine.get().is_some_and(|engine| !engine.status().is_up)
    }
}
