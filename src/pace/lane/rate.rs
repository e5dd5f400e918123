//! The delay of a lane itself, whatever the site asks of a group: the operator's, that of a low
//! quota (RateLimit), and that of a slow site.

use std::time::Duration;

use super::adapt::Adapt;
use super::config::Config;
use crate::pace::tick::Tick;

/// What the responses of an origin say about how many requests it takes.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The mean time from a start to the head of the response, half of it the last one's.
    latency: Option<Duration>,
    /// The delay that spreads a low quota, until then.
    spread: Option<(Duration, Tick)>,
    /// The most concurrency, until then.
    concurrency: Option<(usize, Tick)>,
}

impl Rate {
    pub(super) const fn new() -> Self {
        Self { latency: None, spread: None, concurrency: None }
    }

    pub(super) const fn latency(&self) -> Option<Duration> {
        self.latency
    }

    pub(super) const fn set_latency(&mut self, latency: Option<Duration>) {
        self.latency = latency;
    }

    pub(super) fn note_latency(&mut self, sample: Duration, is_good: bool) {
        let former = self.latency.unwrap_or(sample);
        if is_good || sample > former {
            self.latency = Some((former + sample) / 2);
        }
    }

    pub(super) const fn spread(&mut self, delay: Duration, until: Tick) {
        self.spread = Some((delay, until));
    }

    pub(super) const fn limit_concurrency(&mut self, concurrency: usize, until: Tick) {
        self.concurrency = Some((concurrency, until));
    }

    /// Of `ramp` requests under way, those that the site takes.
    pub(super) fn concurrency(&self, ramp: usize, now: Tick) -> usize {
        match self.concurrency {
            Some((concurrency, until)) if now < until => ramp.min(concurrency).max(1),
            _ => ramp,
        }
    }

    /// The moment at which the number of concurrency rises again.
    pub(super) fn concurrency_until(&self) -> Option<Tick> {
        self.concurrency.map(|(_, until)| until)
    }

    /// The delay of the lane.
    pub(super) fn delay(&self, config: &Config, now: Tick) -> Duration {
        let delay = self.unadapted(config, now);
        delay.max(self.adapted(config, delay))
    }

    /// The same, however slow the site is.
    pub(super) fn unadapted(&self, config: &Config, now: Tick) -> Duration {
        let spread = self.spread.filter(|(_, until)| now < *until).map(|(delay, _)| delay);
        config.delay.max(spread.unwrap_or_default())
    }

    /// The least delay of a lane or group that has the delay `own` without it.
    pub(super) fn adapted(&self, config: &Config, own: Duration) -> Duration {
        let adapts = match config.adapt {
            Adapt::Off => false,
            Adapt::Paced => !own.is_zero(),
            Adapt::All => true,
        };
        let latency = self.latency.filter(|_| adapts);
        latency.map_or(Duration::ZERO, |it| config.adapt_factor.times(it).min(config.adapt_max))
    }

    /// When the last of what the site said ends.
    pub(super) fn ends_at(&self) -> Option<Tick> {
        self.spread.map(|(_, until)| until).max(self.concurrency_until())
    }

    /// Whether nothing need be remembered at `now`.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        self.spread.is_none_or(|(_, until)| until <= now)
            && self.concurrency.is_none_or(|(_, until)| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::adapt::AdaptFactor;
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_delay_is_so_many_times_the_mean_response_time() {
        for (adapt, factor, own, latency, expected) in [
            (Adapt::Paced, 1.0, 100, 400, 400),
            (Adapt::Paced, 2.5, 100, 400, 1000),
            (Adapt::Paced, 0.5, 100, 400, 200),
            (Adapt::Paced, 0.1, 100, 400, 100),
            (Adapt::Paced, 100.0, 100, 400, 5000),
            (Adapt::Paced, 2.5, 0, 400, 0),
            (Adapt::All, 2.5, 0, 400, 1000),
            (Adapt::All, 2.5, 0, 0, 0),
            (Adapt::Off, 2.5, 100, 400, 100),
        ] {
            let config = Config {
                delay: ms(own),
                adapt,
                adapt_factor: AdaptFactor::new(factor).unwrap(),
                adapt_max: ms(5000),
                ..crate::pace::Config::off().lane
            };
            let mut rate = Rate::new();
            rate.note_latency(ms(latency), true);
            let delay = rate.delay(&config, Tick::default());
            assert_eq!(delay, ms(expected), "{adapt:?} {factor} {own}");
        }
    }

    #[test]
    fn a_factor_is_a_number_within_bounds() {
        for (factor, is_one) in [
            (0.001, true),
            (1.0, true),
            (100.0, true),
            (100.1, false),
            (0.0, false),
            (-1.0, false),
            (f64::NAN, false),
            (f64::INFINITY, false),
            (f64::NEG_INFINITY, false),
        ] {
            assert_eq!(AdaptFactor::new(factor).is_some(), is_one, "{factor}");
        }
    }
}
