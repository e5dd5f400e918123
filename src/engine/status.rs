//! What was last seen of an engine.

use std::time::Duration;

use super::clock::Micros;
use super::error::Error;

/// A proxy whose clock differs more from the engine's, in microseconds, keeps its results to
/// itself: their dates would mislead the others.
pub const CLOCK_OFFSET_MAX_MICROS: u64 = 60_000_000;

/// What was last seen of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether requests are sent to it.
    pub is_up: bool,
    /// Whether it was ever reached by this process.
    pub was_reached: bool,
    /// Why it is not up; or, until the next heartbeat, the last error of one that is.
    pub last_error: Option<Error>,
    /// How many proxies there are: the largest count of the last ten minutes of contact; at least
    /// 1.
    /// While the engine is away, each takes this share of the pace.
    pub members: usize,
    /// How many proxies lived at the last heartbeat.
    pub present: usize,
    /// How many of those have the same shared settings.
    pub same_settings: usize,
    /// The name of this proxy, if another live process has the same.
    pub namesake: Option<String>,
    /// When the engine's data began; none before the first heartbeat.
    pub epoch: Option<Micros>,
    /// The time between two announcements that this proxy sends requests to an origin.
    pub presence_interval: Duration,
    /// The mean time between a request and its response, from which [`super::slack`] follows.
    pub round_trip: Duration,
    /// How far the engine's clock is ahead of this machine's, in microseconds.
    pub clock_offset: Option<i64>,
    /// The server may forget what it should keep (its `maxmemory-policy` is not `noeviction`).
    pub may_evict: bool,
    /// The server's kind and version.
    pub server: Option<String>,
}

impl Status {
    /// Whether most of the proxies that live now have other shared settings than this one. Those
    /// that have gone have none, though they count in [`Self::members`] for a while.
    pub const fn has_other_settings(&self) -> bool {
        2 * self.same_settings < self.present
    }
}
