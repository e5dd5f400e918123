//! The settings of a lane.

use std::time::Duration;

use crate::engine::Rank;
use crate::pace::tick::Tick;

/// So long after the head of its response a request does not count as under way any more: a long
/// download or an event stream. No page takes as long.
pub const LONG_TRANSFER: Duration = Duration::from_secs(30);

/// The longest delay that follows from an origin's response times: a site as slow as that fails
/// rather, and failures hold it.
pub const ADAPT_MAX: Duration = Duration::from_secs(30);

/// The settings of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two starts, whatever the site asks.
    pub delay: Duration,
    /// Requests under way that count.
    pub concurrency: usize,
    /// The hold after a 429 without Retry-After.
    pub backoff_min: Duration,
}

/// What a request is, as far as it concerns the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A request of a crawler that this group of the robots.txt applies to, and the delay that is
    /// asked of that. It does not start before `not_before`, the beginning of the next Visit-time.
    Page { group: &'a str, delay: Duration, not_before: Option<Tick> },
    /// What a document of a visit loads: without a delay.
    Subresource,
    /// A robots.txt: without a delay, and not counted as under way.
    RobotsTxt,
}

impl Kind<'_> {
    /// The delay that the site asks of the request.
    pub(super) const fn delay(self) -> Duration {
        match self {
            Self::Page { delay, .. } => delay,
            Self::Subresource | Self::RobotsTxt => Duration::ZERO,
        }
    }

    pub(super) const fn is_page(self) -> bool {
        matches!(self, Self::Page { .. })
    }
}

/// This proxy's share of the requests under way at an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The proxies that request the origin, with the engine.
    pub proxies: u32,
    /// Without the engine: this proxy's rank among all.
    pub rank: Option<Rank>,
}

impl Share {
    /// Of one proxy alone.
    pub const ALONE: Self = Self { proxies: 1, rank: None };

    /// The requests that may be under way, of so many of all proxies; without the engine there may be
    /// none but those with a delay, which wait for the cells of this proxy.
    pub(super) fn of(self, concurrency: usize) -> usize {
        match self.rank {
            Some(rank) => rank.part_of(concurrency),
            None => (concurrency / self.proxies as usize).max(1),
        }
    }

    /// The delay between two starts of this proxy: without the engine, others start in between.
    pub(super) fn delay(self, delay: Duration) -> Duration {
        delay.saturating_mul(self.rank.map_or(1, Rank::width))
    }
}
