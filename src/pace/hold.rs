//! Holds: times in which nothing starts at an origin, because it asks for that (Retry-After, an
//! exhausted quota) or fails.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};

use super::tick::Tick;
use crate::policy::pace::{RateLimit, rate_limit, retry_after};
use crate::types::timestamp::Timestamp;

/// Failures in a row begin a hold when they weigh so much: five server errors or
/// timeouts, or eight connections that are refused or reset.
const WEIGHT_MAX: u32 = 40;
const FAILURE_WEIGHT: u32 = WEIGHT_MAX / 5;
const CONNECTION_WEIGHT: u32 = WEIGHT_MAX / 8;
/// The first wait after a 503 or after failures is so much shorter than after a 429.
const FAILURE_DIVISOR: u32 = 10;
/// The random part of a back-off is at most this part of it.
const JITTER_DIVISOR: u32 = 10;

/// The longest back-off: a site that has recovered is asked again within minutes.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10 * 60);

/// The longest hold that a Retry-After or an exhausted quota can ask for: more is a mistake rather
/// than a wish, and would end a crawl.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// The first wait of a back-off after a response of this status, where it is `backoff_min` after a
/// 429.
pub(super) fn first_backoff(status: u16, backoff_min: Duration) -> Duration {
    if status == 429 { backoff_min } else { backoff_min / FAILURE_DIVISOR }
}

/// Until then nothing starts at the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Tick,
    /// The status that the client gets meanwhile: that of the origin, or 503 after timeouts.
    pub status: u16,
    pub cause: Cause,
}

/// Why an origin is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Retry-After (RFC 9110 §10.2.3).
    RetryAfter,
    /// A quota of RateLimit is exhausted.
    RateLimit,
    /// 429 or 503 without a time, or failures in a row.
    BackOff,
}

impl Cause {
    /// The word in logs and summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry_after",
            Self::RateLimit => "rate_limit",
            Self::BackOff => "back_off",
        }
    }
}

/// How a request ended, as far as it concerns the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A response that says nothing about the pace.
    Good,
    /// A response or a quota that says when to come back.
    RetryLater { status: u16, cause: Cause, after: Duration },
    /// 429 or 503 that does not say when, or ENHANCE_YOUR_CALM (RFC 9113 §7).
    Overload { status: u16 },
    /// 500, 502, 504, 520 to 524, or a timeout.
    Failure { status: u16 },
    /// The connection was refused, or reset before a response came.
    ConnectionLost,
    /// It says nothing about the origin's load: an error of TLS or of the protocol; or a failed fetch
    /// of a robots.txt, which has a back-off of its own.
    Ignored,
}

/// Why a request has no response, or not all of it, as far as it concerns the pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The origin may be overloaded.
    Timeout,
    /// The connection was refused, or reset.
    ConnectionLost,
    /// The origin has ended the stream or the connection for its load (RFC 9113 §7).
    EnhanceYourCalm,
    Other,
}

/// The holds of one origin, and the failures behind them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Holds {
    hold: Option<Hold>,
    /// The moment at which the hold began: failures of earlier requests belong to it.
    since: Tick,
    /// Back-offs in a row.
    streak: u32,
    /// The weight of the failures in a row.
    failures: u32,
    /// The last failure.
    failed: Tick,
}

impl Holds {
    /// No hold, and no failure.
    pub const fn new() -> Self {
        let never = Tick::from_micros(0);
        Self { hold: None, since: never, streak: 0, failures: 0, failed: never }
    }

    /// The hold at `now`, if there is one.
    pub fn at(&self, now: Tick) -> Option<Hold> {
        self.hold.filter(|hold| now < hold.until)
    }

    /// The moment until which nothing may start.
    pub fn until(&self) -> Tick {
        self.hold.map_or(Tick::default(), |hold| hold.until)
    }

    /// Whether there were back-offs in a row.
    pub const fn has_streak(&self) -> bool {
        self.streak > 0
    }

    /// Whether nothing need be remembered at `now`: failures in a row count for as long as the
    /// longest back-off, after which they are no longer in a row.
    pub fn is_over(&self, now: Tick) -> bool {
        let has_failed = self.streak > 0 || self.failures > 0;
        let last = self.until().max(self.failed);
        self.at(now).is_none() && (!has_failed || now > last + BACKOFF_MAX)
    }

    /// Holds until `hold.until`, unless a longer hold applies.
    pub fn set(&mut self, hold: Hold, now: Tick) {
        if self.hold.is_none_or(|present| present.until < hold.until) {
            if self.at(now).is_none() {
                self.since = now;
            }
            self.hold = Some(hold);
        }
    }

    /// Notes how a request ended that began at `began`. `jitter` is from 0 to 1. Returns whether a
    /// hold began or became longer.
    pub fn note(
        &mut self,
        outcome: Outcome,
        (began, now): (Tick, Tick),
        backoff_min: Duration,
        jitter: f64,
    ) -> bool {
        let before = self.until();
        if self.is_over(now) {
            (self.streak, self.failures) = (0, 0);
        }
        // Concurrent failures are one event.
        let is_new_event = self.hold.is_none() || began > self.since;
        match outcome {
            Outcome::Good => {
                self.failures = 0;
                if is_new_event && self.at(now).is_none() {
                    self.streak = 0;
                }
            }
            Outcome::Ignored => {}
            Outcome::RetryLater { status, cause, after } => {
                self.failures = 0;
                self.set(Hold { until: now + after, status, cause }, now);
            }
            Outcome::Overload { status } if is_new_event => {
                self.back_off(status, first_backoff(status, backoff_min), now, jitter);
            }
            Outcome::Failure { status } if is_new_event => {
                self.fail(FAILURE_WEIGHT, status, now, backoff_min, jitter);
            }
            Outcome::ConnectionLost if is_new_event => {
                self.fail(CONNECTION_WEIGHT, 503, now, backoff_min, jitter);
            }
            Outcome::Overload { .. } | Outcome::Failure { .. } | Outcome::ConnectionLost => {}
        }
        self.until() > before
    }

    /// Backs off, if there have been enough failures in a row.
    fn fail(&mut self, weight: u32, status: u16, now: Tick, backoff_min: Duration, jitter: f64) {
        self.failures += weight;
        self.failed = now;
        if self.failures >= WEIGHT_MAX || self.streak > 0 {
            self.back_off(status, backoff_min / FAILURE_DIVISOR, now, jitter);
        }
    }

    /// Whether there were failures, or back-offs, that count at `now`.
    pub fn has_failed(&self, now: Tick) -> bool {
        (self.streak > 0 || self.failures > 0) && !self.is_over(now)
    }

    /// Takes what `other` remembers, where that is more.
    pub fn absorb(&mut self, other: Self, now: Tick) {
        if let Some(hold) = other.at(now) {
            self.set(hold, now);
        }
        self.streak = self.streak.max(other.streak);
        self.failures = self.failures.max(other.failures);
        self.failed = self.failed.max(other.failed);
    }

    /// Doubles with each one in a row.
    fn back_off(&mut self, status: u16, first: Duration, now: Tick, jitter: f64) {
        let wait = first.saturating_mul(2_u32.saturating_pow(self.streak)).min(BACKOFF_MAX);
        let more = wait.mul_f64(jitter.clamp(0.0, 1.0)) / JITTER_DIVISOR;
        self.streak = self.streak.saturating_add(1);
        self.failures = 0;
        self.set(Hold { until: now + wait + more, status, cause: Cause::BackOff }, now);
    }
}

/// The outcome of a request whose response has this head, and what its RateLimit fields ask for.
pub(super) fn outcome(
    (status, headers): (StatusCode, &HeaderMap),
    is_robots_txt: bool,
    now: Timestamp,
) -> (Outcome, RateLimit) {
    let code = status.as_u16();
    if let Some(after) = retry_after(status, headers, now, RETRY_AFTER_MAX) {
        let cause = Cause::RetryAfter;
        return (Outcome::RetryLater { status: code, cause, after }, RateLimit::default());
    }
    let limit = rate_limit(status, headers, now, RETRY_AFTER_MAX);
    let outcome = match (limit.hold, code) {
        (Some(after), _) => {
            let status = if code == 503 { code } else { 429 };
            Outcome::RetryLater { status, cause: Cause::RateLimit, after }
        }
        // The fetch of a robots.txt has a back-off of its own, for the agent that it was sent for.
        (None, 429 | 500..=599) if is_robots_txt => Outcome::Ignored,
        (None, 429 | 503) => Outcome::Overload { status: code },
        (None, 500 | 502 | 504 | 520..=524) => Outcome::Failure { status: code },
        (None, _) => Outcome::Good,
    };
    (outcome, limit)
}

/// Random, from 0 to 1, where `outcome` may begin a back-off.
pub(super) fn jitter(outcome: Outcome) -> f64 {
    match outcome {
        Outcome::Overload { .. } | Outcome::Failure { .. } | Outcome::ConnectionLost => {
            let random = ulid::Ulid::new().random() as u16;
            f64::from(random) / f64::from(u16::MAX)
        }
        Outcome::Good | Outcome::RetryLater { .. } | Outcome::Ignored => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const BACKOFF_MIN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    /// Outcomes as (began, ended, outcome, hold until).
    fn check(story: &[(u64, u64, Outcome, u64)]) {
        let mut holds = Holds::default();
        for (index, (began, ended, outcome, until)) in story.iter().enumerate() {
            holds.note(*outcome, (at(*began), at(*ended)), BACKOFF_MIN, 0.0);
            assert_eq!(holds.until(), at(*until), "step {index}");
        }
    }

    const OVERLOAD: Outcome = Outcome::Overload { status: 429 };
    const FAILURE: Outcome = Outcome::Failure { status: 500 };

    #[test]
    fn a_back_off_doubles_up_to_its_bound_and_ends_with_a_good_response() {
        check(&[
            (1, 2, OVERLOAD, 12),
            (13, 14, OVERLOAD, 34),
            (35, 36, OVERLOAD, 76),
            (77, 78, OVERLOAD, 158),
            (159, 160, OVERLOAD, 320),
            (321, 322, OVERLOAD, 642),
            (643, 644, OVERLOAD, 1244),
            (1245, 1246, OVERLOAD, 1846),
            (1847, 1848, Outcome::Good, 1846),
            (1849, 1850, OVERLOAD, 1860),
        ]);
    }

    #[test]
    fn concurrent_failures_are_one_event_and_a_time_counts_nevertheless() {
        let after = |seconds| Outcome::RetryLater {
            status: 429,
            cause: Cause::RetryAfter,
            after: SECOND * seconds,
        };
        check(&[
            (1, 2, OVERLOAD, 12),
            (1, 3, OVERLOAD, 12),
            (1, 4, after(30), 34),
            (1, 5, after(3), 34),
            (1, 6, Outcome::Good, 34),
        ]);
    }

    #[test]
    fn five_failures_in_a_row_begin_a_short_hold() {
        let mut story: Vec<_> = (0..4).map(|turn| (turn, turn + 1, FAILURE, 0)).collect();
        story.extend([(5, 6, FAILURE, 7), (8, 9, FAILURE, 11), (12, 13, Outcome::Ignored, 11)]);
        check(&story);
        let mut story = vec![(0, 1, Outcome::Good, 0)];
        for turn in 1..20 {
            story.push((turn, turn + 1, if turn % 5 == 0 { Outcome::Good } else { FAILURE }, 0));
        }
        check(&story);
    }

    #[test]
    fn eight_lost_connections_in_a_row_are_as_five_failures() {
        const LOST: Outcome = Outcome::ConnectionLost;
        let mut story: Vec<_> = (0..7).map(|turn| (turn, turn + 1, LOST, 0)).collect();
        story.extend([(8, 9, LOST, 10), (11, 12, LOST, 14), (15, 16, FAILURE, 20)]);
        check(&story);
        // A response between them ends the row, and both kinds count together.
        let mut story: Vec<_> = (0..7).map(|turn| (turn, turn + 1, LOST, 0)).collect();
        story.push((8, 9, Outcome::Good, 0));
        story.extend((9..12).map(|turn| (turn, turn + 1, FAILURE, 0)));
        story.extend([(12, 13, LOST, 0), (13, 14, LOST, 0), (14, 15, FAILURE, 16)]);
        check(&story);
    }

    #[test]
    fn the_random_part_is_a_tenth_at_most() {
        for (jitter, until) in [(0.0, 12_000_000), (1.0, 13_000_000), (7.0, 13_000_000)] {
            let mut holds = Holds::default();
            assert!(holds.note(OVERLOAD, (at(1), at(2)), BACKOFF_MIN, jitter));
            assert_eq!(holds.until().micros(), until);
        }
    }
}
