//! A point on the calendar, as a number the pure floors can be given.
//!
//! Policy times outlive the process (a restart must not forget since when an origin's robots.txt
//! has been unreachable), so they are dates, never readings of a monotonic clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z. Arithmetic saturates: a hostile or broken clock can
/// make a moment wrong, never make the program panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// This moment moved `by` into the future.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was; zero when it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// How long until `later`; zero when it has come.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}
