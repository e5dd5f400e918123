//! Moments of the monotonic clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A moment in microseconds of the monotonic clock, from a start that is the same for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// The moment so many microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The moment so long after the start.
    pub fn after(length: Duration) -> Self {
        let micros = length.as_secs().saturating_mul(1_000_000);
        Self(micros.saturating_add(u64::from(length.subsec_micros())))
    }

    /// Microseconds after the start.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Tick {
    type Output = Self;

    /// Rounded up, so that a distance is never shorter than asked.
    fn add(self, length: Duration) -> Self {
        let below_second = u64::from(length.subsec_nanos().div_ceil(1000));
        let micros = length.as_secs().saturating_mul(1_000_000).saturating_add(below_second);
        Self(self.0.saturating_add(micros))
    }
}

impl Sub<Duration> for Tick {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(Self::after(length).0))
    }
}
