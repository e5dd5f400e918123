//! This proxy's part of the pace of an origin that several proxies request.

use std::time::Duration;

use crate::pace::tick::Tick;

/// This proxy's part of the pace of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The factor of the delays: while the engine is away, each of the proxies takes its
    /// part of the pace.
    pub delay_factor: u32,
    /// From then on: what others have started just before is not known.
    pub since: Tick,
    /// The proxies at the origin: each has its part of the concurrency, and they take turns.
    pub proxies: u32,
}

impl Share {
    /// Of one proxy alone.
    pub const ALONE: Self = Self { delay_factor: 1, since: Tick::from_micros(0), proxies: 1 };

    /// Of one of so many proxies that cannot reach the engine since then.
    pub const fn away(delay_factor: u32, since: Tick) -> Self {
        Self { delay_factor, since, proxies: 1 }
    }

    /// When the next start may be, where it might be at `next` if this proxy had the whole pace: so
    /// many delays after its last one, and after the engine was away.
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
