//! A date as a number, for code that does no I/O.
//!
//! Policy times outlive the process (a restart must not forget since when an origin's robots.txt
//! has been unreachable), so they are dates, never readings of a monotonic clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, up to the end of the year 9999: the dates that HTTP
/// (RFC 9110 §5.6.7) and RFC 3339 can express. Later dates saturate: a wrong clock can make a
/// timestamp wrong, but cannot make the program or its dependencies panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64", into = "u64")]
pub struct Timestamp(u64);

impl From<u64> for Timestamp {
    fn from(millis: u64) -> Self {
        Self::from_millis(millis)
    }
}

impl From<Timestamp> for u64 {
    fn from(moment: Timestamp) -> Self {
        moment.0
    }
}

impl Timestamp {
    /// 9999-12-31T23:59:59.999Z.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// From milliseconds since 1970; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        if millis < Self::LAST.0 { Self(millis) } else { Self::LAST }
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// This time plus `by`; saturates.
    pub fn plus(self, by: Duration) -> Self {
        Self::from_millis(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since `earlier`; zero if it is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The time until `later`; zero if it has passed.
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}
