//! Holds: for how long nothing starts at an origin, and why.

use std::time::Duration;

use crate::types::origin::Origin;

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
