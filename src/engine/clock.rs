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

/// The bounds of a slot's length. Less would be lost to the scheduler; more would cost pace.
const SLACK_MIN: Duration = Duration::from_millis(40);
const SLACK_MAX: Duration = Duration::from_millis(200);
/// The mean round trips that fit into a slot: the span below is one narrower.
const ROUND_TRIPS: u32 = 4;
/// And so large a part of the horizon, for clocks that differ in rate.
const HORIZON_PART: u32 = 4000;
/// Two clocks differ in rate by less than this part: four times what crystals do (25 ppm).
const RATE_PART: u32 = 10_000;

/// Slots further ahead would be over by one clock before they begin by another: two clocks may be
/// apart by twice the ten-thousandth part, and a slot lasts `SLACK_MAX` at most.
pub const HORIZON_MAX: Duration = Duration::from_secs(600);

/// How long a slot is to last, for a mean round trip to the engine ([`super::Status::round_trip`])
/// and the longest time ahead of which slots are reserved.
pub fn slack(round_trip: Duration, horizon: Duration) -> Duration {
    let slack = round_trip.saturating_mul(ROUND_TRIPS).saturating_add(horizon / HORIZON_PART);
    slack.clamp(SLACK_MIN, SLACK_MAX)
}

/// When a request may start that has a slot beginning `slot` from the engine's decision, which was
/// some time between `sent` and `received`: from the first value until before the second, by the
/// clock of these. `None` if the response took too long: the slot is lost, and another is
/// requested.
pub fn start_window(
    sent: Duration,
    received: Duration,
    slot: Duration,
    slack: Duration,
) -> Option<(Duration, Duration)> {
    let drift = slot / RATE_PART;
    let begin = received + slot + drift;
    let end = (sent + slot + slack).checked_sub(drift)?;
    (begin < end).then_some((begin, end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_slack_follows_the_round_trip_within_bounds() {
        assert_eq!(slack(ms(0), ms(0)), ms(40));
        assert_eq!(slack(ms(10), ms(120_000)), ms(70));
        assert_eq!(slack(ms(100), ms(120_000)), ms(200));
    }

    #[test]
    fn a_response_that_took_as_long_as_the_slot_lasts_loses_it() {
        assert_eq!(start_window(ms(100), ms(101), ms(0), ms(40)), Some((ms(101), ms(140))));
        assert_eq!(
            start_window(ms(100), ms(101), ms(10_000), ms(40)),
            Some((ms(10_102), ms(10_139)))
        );
        assert_eq!(start_window(ms(100), ms(140), ms(0), ms(40)), None);
    }

    #[test]
    fn the_slot_that_is_furthest_ahead_has_a_window() {
        let slack = slack(ms(10), HORIZON_MAX);
        assert!(start_window(ms(0), ms(10), HORIZON_MAX, slack).is_some());
        assert_eq!(start_window(ms(0), ms(10), 2 * HORIZON_MAX, SLACK_MAX), None);
    }

    proptest! {
        /// Of two clocks whose rates differ by at most the assumed part.
        #[test]
        fn a_start_in_the_window_lies_in_the_slot(
            decided in 0_u64..60_000_000, before in 0_u64..30_000, after in 0_u64..30_000,
            slot in 0_u64..120_000_000, rate in -90_i64..=90, at in 0.0..1.0,
        ) {
            let micros = Duration::from_micros;
            // This proxy's clock runs faster by `rate` millionths.
            let own = |engine: u64| (engine as f64 * (1.0 + rate as f64 / 1e6)) as u64;
            let (sent, received) = (own(decided), own(decided + before + after));
            let decided = decided + before;
            let slack = slack(micros(10_000), micros(120_000_000));
            let window = start_window(micros(sent), micros(received), micros(slot), slack);
            if let Some((begin, end)) = window {
                let start = begin + (end - begin).mul_f64(at);
                let engine = start.as_micros() as f64 / (1.0 + rate as f64 / 1e6);
                let (from, until) = (decided + slot, decided + slot + slack.as_micros() as u64);
                // A clock's reading is off by a microsecond.
                prop_assert!(engine + 2.0 >= from as f64, "{engine} {from}");
                prop_assert!(engine - 2.0 <= until as f64, "{engine} {until}");
            }
        }
    }
}
