//! The settings of a lane.

use std::time::Duration;

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

/// This proxy's share of the pace of an origin: with the engine, of its concurrency; while the
/// engine is away, of its starts, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The factor of the delays: 1 with the engine; while it is away, the number of proxies.
    pub delay_factor: u32,
    /// From then on: what others have started just before is not known.
    pub since: Tick,
    /// The proxies that request the origin, with the engine. The concurrency is divided by this or
    /// by the factor of the delays, whichever is more.
    pub proxies: u32,
}

impl Share {
    /// Of one proxy alone.
    pub const ALONE: Self = Self { delay_factor: 1, since: Tick::from_micros(0), proxies: 1 };

    /// Of each of `delay_factor` proxies that have not reached the engine since then.
    pub const fn away(delay_factor: u32, since: Tick) -> Self {
        Self { delay_factor, since, proxies: 1 }
    }

    /// When the next start may be, which would be at `next` if this proxy were alone: the delay
    /// times the factor after its last start, and after the engine went away.
    pub(super) fn extended(self, next: Tick, delay: impl FnOnce() -> Duration) -> Tick {
        // The common case, without a look at the delay.
        if self.delay_factor <= 1 {
            return next;
        }
        let delay = delay();
        if delay.is_zero() {
            return next;
        }
        let first = self.since + delay.saturating_mul(self.delay_factor);
        // At the start of the clock nothing has started.
        let more = if next > Tick::default() { self.delay_factor - 1 } else { 0 };
        first.max(next + delay.saturating_mul(more))
    }

    /// Whether a start at `next` lies ahead at `now`, and is to be remembered.
    pub(super) fn lasts(self, next: Tick, delay: Duration, now: Tick) -> bool {
        next > Tick::default() && self.extended(next, || delay) > now
    }
}
