//! The settings of a lane.

use std::time::Duration;

use super::lane_holds::HoldScope;
use crate::pace::hold::Bounds;
use crate::pace::tick::Tick;
use crate::types::words::words;

/// The settings of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Between two starts, whatever the site asks.
    pub delay: Duration,
    /// Requests under way that count.
    pub concurrency: usize,
    pub holds: Bounds,
    pub hold_scope: HoldScope,
    /// The time after the head of its response from which a request does not count any more.
    pub long_transfer: Duration,
    /// Which lanes slow down with the site: the delay is at least `adapt_factor` times the mean
    /// time to the head of a response, and at most `adapt_max`.
    pub adapt: Adapt,
    pub adapt_factor: AdaptFactor,
    pub adapt_max: Duration,
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

words! {
    /// Which lanes slow down with the site (`pace.adapt`).
    #[derive(Default)]
    pub enum Adapt {
        /// Those with a delay.
        #[default]
        Paced = "paced",
        All = "all",
        Off = "off",
    }
}

/// How many times the mean response time the delay is (`pace.adapt_factor`): more than 0, at most
/// [`Self::MAX`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptFactor(f64);

/// It is a number.
impl Eq for AdaptFactor {}

impl AdaptFactor {
    /// With more, an origin would spend less than a hundredth of its time on these requests.
    pub const MAX: f64 = 100.0;

    /// A factor; `None`: it is out of bounds.
    pub fn new(factor: f64) -> Option<Self> {
        (factor > 0.0 && factor <= Self::MAX).then_some(Self(factor))
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// `time`, multiplied by the factor.
    pub(super) fn times(self, time: Duration) -> Duration {
        time.mul_f64(self.0)
    }
}

impl Default for AdaptFactor {
    fn default() -> Self {
        Self(1.0)
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
