//! When requests go to an origin.

use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::config::rules::OriginRule;
use crate::config::units;
use crate::pace::{self, PaceMode, lane};
use crate::policy::Mode;
use crate::types::origin::Origin;

/// `[pace]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// `None`: to enforce, or to observe where `robots.mode` is that.
    pub mode: Option<PaceMode>,
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
    /// Requests that wait for their turn at one origin.
    #[serde(with = "units::count")]
    pub max_waiting_per_origin: usize,
    /// The status of a request that would wait too long.
    #[serde(with = "units::status")]
    pub status: StatusCode,
    /// The hold after a 429 without Retry-After.
    #[serde(with = "units::duration")]
    pub backoff_min: Duration,
    /// Between two requests to an address, over all its origins.
    #[serde(with = "units::delay")]
    pub address_delay: Duration,
    /// Requests under way to an address that count; 0: any number.
    pub address_concurrency: usize,
    /// Networks that serve many sites: their addresses have neither.
    #[serde(with = "units::blocks")]
    pub shared_addresses: Vec<IpNet>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            mode: None,
            delay: Duration::ZERO,
            concurrency: 8,
            max_crawl_delay: Duration::from_hours(24),
            max_wait: Duration::from_mins(15),
            max_waiting_per_origin: 1024,
            status: StatusCode::TOO_MANY_REQUESTS,
            backoff_min: Duration::from_secs(10),
            address_delay: Duration::ZERO,
            address_concurrency: 0,
            shared_addresses: Vec::new(),
        }
    }
}

impl Pace {
    /// When requests go to an origin, where robots.txt is obeyed as `robots` says and each of
    /// `origins` has a rule. What other sections say is as in [`pace::Config::off`].
    pub fn build(&self, robots: Mode, origins: &[OriginRule]) -> pace::Config {
        // What is only observed must not slow a crawler down.
        let default = match robots {
            Mode::Observe => PaceMode::Observe,
            Mode::Enforce => PaceMode::Enforce,
        };
        pace::Config {
            mode: self.mode.unwrap_or(default),
            lane: lane::Config {
                delay: self.delay,
                concurrency: self.concurrency,
                backoff_min: self.backoff_min,
            },
            max_wait: self.max_wait,
            max_waiting_per_origin: self.max_waiting_per_origin,
            max_crawl_delay: self.max_crawl_delay,
            origins: origins.iter().map(origin_pace).collect(),
            addresses: pace::AddressLimits {
                delay: self.address_delay,
                concurrency: self.address_concurrency,
                shared: self.shared_addresses.clone(),
            },
            ..pace::Config::off()
        }
    }
}

fn origin_pace(rule: &OriginRule) -> (Origin, pace::OriginPace) {
    let OriginRule { pace: mode, delay, concurrency, .. } = *rule;
    (rule.origin.clone(), pace::OriginPace { mode, delay, concurrency })
}
