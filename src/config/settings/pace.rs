//! When requests go to an origin.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::units;
use crate::pace::lane::{Adapt, HoldScope};
use crate::pace::{PaceMode, Subresources};

/// `[pace]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    pub mode: PaceMode,
    /// Between two requests to an origin, whatever the site asks.
    #[serde(with = "units::delay")]
    pub delay: Duration,
    /// Requests under way to an origin that count.
    #[serde(with = "units::count")]
    pub concurrency: usize,
    /// The longest delay that a robots.txt can ask for.
    #[serde(with = "units::duration")]
    pub max_crawl_delay: Duration,
    /// The longest that a request waits.
    #[serde(with = "units::delay")]
    pub max_wait: Duration,
    /// Requests that wait, in all.
    #[serde(with = "units::count")]
    pub max_waiting: usize,
    #[serde(with = "units::count")]
    pub max_waiting_per_origin: usize,
    /// The status of a request that would wait too long.
    #[serde(with = "units::status")]
    pub status: StatusCode,
    pub subresources: Subresources,
    pub adapt: Adapt,
    #[serde(with = "units::duration")]
    pub adapt_max: Duration,
    #[serde(with = "units::duration")]
    pub max_retry_after: Duration,
    /// After a 429 without Retry-After.
    #[serde(with = "units::duration")]
    pub backoff_min: Duration,
    #[serde(with = "units::duration")]
    pub backoff_max: Duration,
    /// Whom a hold concerns.
    pub holds: HoldScope,
    /// Whether RateLimit fields are obeyed.
    pub rate_limit_fields: bool,
    /// So long after the head of its response a request does not count any more.
    #[serde(with = "units::duration")]
    pub long_transfer: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mode: PaceMode::Enforce,
            delay: Duration::ZERO,
            concurrency: 8,
            max_crawl_delay: Duration::from_mins(5),
            max_wait: Duration::from_mins(2),
            max_waiting: 16_384,
            max_waiting_per_origin: 1024,
            status: StatusCode::TOO_MANY_REQUESTS,
            subresources: Subresources::Visit,
            adapt: Adapt::Paced,
            adapt_max: Duration::from_secs(30),
            max_retry_after: Duration::from_hours(1),
            backoff_min: Duration::from_secs(10),
            backoff_max: Duration::from_mins(10),
            holds: HoldScope::Origin,
            rate_limit_fields: true,
            long_transfer: Duration::from_secs(30),
        }
    }
}
