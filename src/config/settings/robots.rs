//! How robots.txt is fetched, kept and read.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::config::rules::AgentRule;
use crate::config::units::{self, bytes};
use crate::config::values::{ContactUrl, FetchAs};
use crate::policy::Mode;
use crate::policy::profile::{Access, Meaning, Obedience, OutageCopy, Profile, ProfileName};
use crate::store;
use crate::store::disk::config::{
    ROBOTS_TXT_BYTES, STORE_PENDING_BYTES_MAX, STORE_PENDING_BYTES_MIN,
};
use crate::store::fetch::{self, FetchIdentity};
use crate::watch::Changes;

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
    pub knobs: Knobs,
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
            knobs: Knobs::default(),
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

    /// Bytes of the write queue to the store, in proportion to the memory of the store.
    pub fn store_pending_max(&self) -> usize {
        bytes(self.cache_size / 4).clamp(STORE_PENDING_BYTES_MIN, STORE_PENDING_BYTES_MAX)
    }
}

/// Single knobs of the profile; absent: as the profile has them. They hold for every profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    pub status_401_403: Option<Meaning>,
    pub status_429: Option<Meaning>,
    pub status_other_4xx: Option<Meaning>,
    /// Whether a refresh may ask with `If-None-Match` and `If-Modified-Since`.
    pub conditional: Option<bool>,
    pub crawl_delay: Option<Obedience>,
    pub request_rate: Option<Obedience>,
    pub visit_time: Option<Obedience>,
}

/// The policy while a robots.txt is unreachable; absent: as the profile has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outage {
    pub copy: Option<OutageCopy>,
    pub after: Option<Access>,
    /// How long robots.txt must have been seen unreachable before `after` holds.
    #[serde(with = "units::duration_option")]
    pub after_time: Option<Duration>,
    /// The first wait before an unreachable robots.txt is tried again; it doubles up to `retry_max`.
    #[serde(with = "units::duration_option")]
    pub retry_min: Option<Duration>,
    /// The longest wait before another try.
    #[serde(with = "units::duration_option")]
    pub retry_max: Option<Duration>,
}

/// Applies the knobs and the outage that are set to `profile`.
pub fn apply_knobs(robots: &Robots, outage: &Outage, profile: &mut Profile) {
    profile.redirects_max = robots.max_redirects;
    // Upwards only: RFC 9309 §2.5 sets the least, and each profile has its own default.
    if robots.max_size > ROBOTS_TXT_BYTES as u64 {
        profile.dialect.size_limit = usize::try_from(robots.max_size).unwrap_or(usize::MAX);
    }

    let knobs = &robots.knobs;
    put(&mut profile.meanings.unauthorized, knobs.status_401_403);
    put(&mut profile.meanings.too_many_requests, knobs.status_429);
    put(&mut profile.meanings.other_4xx, knobs.status_other_4xx);
    put(&mut profile.conditional, knobs.conditional);
    put(&mut profile.pace.crawl_delay, knobs.crawl_delay);
    put(&mut profile.pace.request_rate, knobs.request_rate);
    put(&mut profile.pace.visit_time, knobs.visit_time);

    put(&mut profile.outage.copy, outage.copy);
    put(&mut profile.outage.after, outage.after);
    put(&mut profile.outage.after_time, outage.after_time);
    put(&mut profile.outage.retry_min, outage.retry_min);
    put(&mut profile.outage.retry_max, outage.retry_max);
}

/// Sets the knobs and the outage to the values of `profile`.
pub fn fill_knobs(robots: &mut Robots, outage: &mut Outage, profile: &Profile) {
    robots.knobs.status_401_403 = Some(profile.meanings.unauthorized);
    robots.knobs.status_429 = Some(profile.meanings.too_many_requests);
    robots.knobs.status_other_4xx = Some(profile.meanings.other_4xx);
    robots.knobs.conditional = Some(profile.conditional);
    robots.knobs.crawl_delay = Some(profile.pace.crawl_delay);
    robots.knobs.request_rate = Some(profile.pace.request_rate);
    robots.knobs.visit_time = Some(profile.pace.visit_time);
    outage.copy = Some(profile.outage.copy);
    outage.after = Some(profile.outage.after);
    outage.after_time = Some(profile.outage.after_time);
    outage.retry_min = Some(profile.outage.retry_min);
    outage.retry_max = Some(profile.outage.retry_max);
}

/// Replaces `place` if there is a value.
fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
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

/// `[watch]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// The changes that have a notice in the log of denials.
    pub changes: Changes,
}

impl Default for Watch {
    fn default() -> Self {
        Self { changes: Changes::Meaning }
    }
}
