//! When requests to an origin may start, as far as proxies share that.

use std::time::Duration;

use crate::types::origin::Origin;

/// The most slots that one request reserves.
pub const SLOTS_MAX: u8 = 4;

/// Asks for the next slots of a lane.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    pub origin: &'a Origin,
    /// The group of the robots.txt that applies.
    pub group: &'a str,
    /// The delay of the lane; zero if there is none.
    pub own_delay: Duration,
    /// The delay that the site asks of the group; zero if there is none.
    pub asked_delay: Duration,
    /// How long a slot lasts: see [`super::slack`].
    pub slack: Duration,
    /// A slot later than that is not reserved.
    pub horizon: Duration,
    /// How many slots at most, up to [`SLOTS_MAX`].
    pub count: u8,
    /// The longest of the delays and holds that this proxy keeps itself, from now.
    pub left: Duration,
}

/// What was reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// When each slot begins, from the moment at which the engine decided: see
    /// [`super::start_window`]. A slot that is not used is idle time.
    pub slots: Vec<Duration>,
    /// If fewer were reserved than requested: when the next would begin, which is beyond the
    /// horizon. Not worth another request before half of that is over.
    pub beyond: Option<Duration>,
    /// The hold of the origin. Slots begin after it.
    pub hold: Option<Hold>,
}

/// Holds all starts at an origin.
#[derive(Clone, Copy, Debug)]
pub struct HoldRequest<'a> {
    pub origin: &'a Origin,
    pub length: HoldLength,
    /// The status that clients get meanwhile.
    pub status: u16,
    pub cause: HoldCause,
}

/// How long nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldLength {
    /// As the site says. The longer of this and a hold that is there applies.
    For(Duration),
    /// A failure. While a hold lasts, it belongs to that; else the hold doubles with each failure
    /// in a row, from `first` up to `max`, and up to a tenth more: `jitter` thousandths of that.
    BackOff { first: Duration, max: Duration, jitter: u16 },
}

/// Why nothing starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldCause {
    /// Retry-After of a 429 or 503 (RFC 9110 §10.2.3).
    RetryAfter,
    /// A quota of RateLimit is exhausted.
    RateLimit,
    /// Failures, or 429 or 503 without a time.
    BackOff,
}

impl HoldCause {
    /// The word that is stored.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry_after",
            Self::RateLimit => "rate_limit",
            Self::BackOff => "back_off",
        }
    }

    /// The cause of a stored word; an unknown one is a back-off.
    pub fn of(word: &[u8]) -> Self {
        let causes = [Self::RetryAfter, Self::RateLimit];
        causes.into_iter().find(|cause| cause.word().as_bytes() == word).unwrap_or(Self::BackOff)
    }
}

/// A hold that lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// How long, from the moment at which the engine responded.
    pub left: Duration,
    /// The HTTP status that clients get meanwhile.
    pub status: u16,
    pub cause: HoldCause,
}

/// What else matters at an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// How many proxies send requests there, this one included if it has said so. A lane without a
    /// delay takes its part of the places: `max(1, concurrency / here)`.
    pub here: usize,
    pub hold: Option<Hold>,
}
