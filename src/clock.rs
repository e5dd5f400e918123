//! The only reader of the clock. Everything else is given the time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::moment::Moment;

/// A seam, because tests must be able to move thirty days in one addition.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The date, for policy and records.
    fn wall(&self) -> Moment;
}

/// The system's clock.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the date")]
    fn wall(&self) -> Moment {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Moment::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that stands still until it is moved; for tests and for `courtesy demo`.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn starting_at(moment: Moment) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(moment.millis())))
    }

    pub fn advance(&self, by: Duration) {
        let millis = self.wall().plus(by).millis();
        self.0.store(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> Moment {
        Moment::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// A reading of the monotonic clock, for measuring how long something took; never for policy.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the monotonic clock")]
pub fn monotonic() -> Instant {
    Instant::now()
}
