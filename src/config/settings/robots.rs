//! How robots.txt is fetched, kept and read.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::rules::AgentRule;
use crate::config::units::{self, bytes};
use crate::config::values::{ContactUrl, FetchAs};
use crate::policy::Mode;
use crate::policy::profile::{Profile, ProfileName};
use crate::store;
use crate::store::fetch::{self, FetchIdentity, ROBOTS_TXT_BYTES};

/// The time between the end of a fetch's timeout and the answer to the requests that wait for it.
const FETCH_GRACE: Duration = Duration::from_millis(500);

/// Fetches that are queued for each that may run: the last of them has its turn after half a minute,
/// when no site answers ([`store::Config::busy_wait`]).
const QUEUED_PER_FETCH: usize = 16;
/// Requests that wait for each fetch that may run: four for each that runs or is queued.
const WAITING_PER_FETCH: usize = 64;
/// Each queued fetch takes about two kilobytes.
const QUEUED_MAX: usize = 65_536;
/// As many as all clients may have in flight.
const WAITING_MAX: usize = 1 << 20;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `[robots]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    pub profile: ProfileName,
    pub mode: Mode,
    pub fetch_as: FetchAs,
    /// The URL at which a site finds the operator; sent with `fetch_as = "agent"`.
    pub contact: Option<ContactUrl>,
    /// For a whole fetch of a robots.txt, redirects included.
    #[serde(with = "units::duration")]
    pub fetch_timeout: Duration,
    /// Concurrent fetches.
    #[serde(with = "units::count")]
    pub max_fetches: usize,
    /// Bytes of a robots.txt that are read, counted after decoding.
    #[serde(with = "units::size")]
    pub max_size: u64,
    /// Redirects that a fetch follows.
    #[serde(with = "units::few")]
    pub max_redirects: u8,
    /// Bytes of memory for the entries of the store.
    #[serde(with = "units::size")]
    pub cache_size: u64,
}

impl Default for Robots {
    fn default() -> Self {
        Self {
            profile: ProfileName::Rfc9309,
            mode: Mode::Enforce,
            fetch_as: FetchAs::Agent,
            contact: None,
            fetch_timeout: Duration::from_secs(10),
            max_fetches: 256,
            max_size: 500 * KIB,
            max_redirects: 5,
            cache_size: 256 * MIB,
        }
    }
}

impl Robots {
    /// How a robots.txt is fetched.
    pub fn fetch(&self) -> fetch::Config {
        let fetch_as = match &self.fetch_as {
            FetchAs::Agent => None,
            FetchAs::Text(text) => Some(FetchIdentity::fixed(text)),
        };
        fetch::Config {
            fetch_as,
            contact: self.contact.as_ref().map(ToString::to_string),
            timeout: self.fetch_timeout,
            max_size: bytes(self.max_size),
        }
    }

    /// The bounds of the store.
    pub fn store(&self) -> store::Config {
        let defaults = store::Config::default();
        store::Config {
            bytes_max: bytes(self.cache_size),
            fetches_max: self.max_fetches,
            queue_max: self.max_fetches.saturating_mul(QUEUED_PER_FETCH).min(QUEUED_MAX),
            waiters_max: self.max_fetches.saturating_mul(WAITING_PER_FETCH).min(WAITING_MAX),
            wait: self.fetch_timeout + FETCH_GRACE,
            busy_wait: defaults.busy_wait.min(self.fetch_timeout),
            ..defaults
        }
    }
}

/// Applies what is set of the profile's knobs to `profile`.
pub fn apply_knobs(robots: &Robots, profile: &mut Profile) {
    profile.redirects_max = robots.max_redirects;
    // Upwards only: RFC 9309 §2.5 sets the least, and each profile has its own default.
    if robots.max_size > ROBOTS_TXT_BYTES as u64 {
        profile.dialect.size_limit = bytes(robots.max_size);
    }
}

/// `[agents]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Whether a request without a User-Agent is refused.
    pub require: bool,
    /// The first that matches applies.
    pub rules: Vec<AgentRule>,
}

/// `[deny]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deny {
    #[serde(with = "units::status")]
    pub status: StatusCode,
    /// The status of a denial because robots.txt is unreachable.
    #[serde(with = "units::status")]
    pub unreachable_status: StatusCode,
}

impl Default for Deny {
    fn default() -> Self {
        Self { status: StatusCode::FORBIDDEN, unreachable_status: StatusCode::FORBIDDEN }
    }
}
