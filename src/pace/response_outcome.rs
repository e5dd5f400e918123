//! What a response says about the pace.

use http::{HeaderMap, StatusCode};

use super::config::Config;
use super::hold::{Cause, Outcome};
pub(super) use crate::policy::pace::concerns_pace;
use crate::policy::pace::{RateLimit, rate_limit, retry_after};
use crate::types::timestamp::Timestamp;

/// The outcome of a request whose response has this head, and what its RateLimit fields ask for.
pub(super) fn outcome(
    (status, headers): (StatusCode, &HeaderMap),
    is_robots_txt: bool,
    config: &Config,
    now: Timestamp,
) -> (Outcome, RateLimit) {
    let code = status.as_u16();
    let max = config.max_retry_after;
    if let Some(after) = retry_after(status, headers, now, max) {
        let cause = Cause::RetryAfter;
        return (Outcome::RetryLater { status: code, cause, after }, RateLimit::default());
    }
    let limit = if config.rate_limit_fields {
        rate_limit(status, headers, now, max)
    } else {
        RateLimit::default()
    };
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
