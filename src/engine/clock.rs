//! The clock of an engine in memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::runtime::clock::{Clock, monotonic};

/// Microseconds since 1970 of an engine's clock.
pub type Micros = u64;

/// The clock by which an engine in memory decides; in tests also a server's.
pub trait EngineClock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Micros;
}

/// The date at the start, and the monotonic clock since: it never goes back.
#[derive(Debug)]
pub struct SystemEngineClock {
    date: Micros,
    start: Instant,
    clock: Arc<dyn Clock>,
}

impl SystemEngineClock {
    /// A clock that follows `clock` where that is advanced by hand.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let date = (clock.wall().millis() * 1000).saturating_sub(micros(clock.advanced()));
        Self { date, start: monotonic(), clock }
    }
}

impl EngineClock for SystemEngineClock {
    fn now(&self) -> Micros {
        self.date + micros(monotonic() - self.start) + micros(self.clock.advanced())
    }
}

/// A clock that is set by hand, also back; for tests and simulations.
#[derive(Debug)]
pub struct ManualEngineClock(AtomicU64);

impl ManualEngineClock {
    /// A clock that shows `now`.
    pub fn starting_at(now: Micros) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now)))
    }

    /// Sets the clock.
    pub fn set(&self, now: Micros) {
        self.0.store(now, Ordering::SeqCst);
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
}

impl EngineClock for ManualEngineClock {
    fn now(&self) -> Micros {
        self.0.load(Ordering::SeqCst)
    }
}

/// Microseconds, rounded up so that a distance is never shorter than asked.
pub(super) fn micros(length: Duration) -> Micros {
    u64::try_from(length.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}
