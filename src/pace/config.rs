//! The settings of the pace.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use super::lane;
use crate::types::origin::Origin;
use crate::types::words::words;

words! {
    /// Whether requests wait for their time.
    #[derive(Default)]
    pub enum PaceMode {
        #[default]
        Enforce = "enforce",
        /// The wait is computed and counted, and no request waits.
        Observe = "observe",
        Off = "off",
    }
}

words! {
    /// What this proxy does while the engine is away (`engine.away`).
    #[derive(Default)]
    pub enum Away {
        /// It takes its share of the pace: delays are as many times as long as there are proxies.
        #[default]
        Share = "share",
        /// It keeps the pace as if it were the only one.
        Alone = "alone",
        /// It refuses requests to origins with a delay.
        Stop = "stop",
    }
}

/// The settings of the pace; see `config/courtesy.toml` for their meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub mode: PaceMode,
    /// Of each lane without settings of its own.
    pub lane: lane::Config,
    /// Exchanges under way with one origin, whether they are paced or not.
    pub max_exchanges: usize,
    pub max_wait: Duration,
    pub max_waiting_per_origin: usize,
    pub max_crawl_delay: Duration,
    /// Time from the beginning of a drain within which waiting requests must start.
    pub drain_timeout: Duration,
    pub origins: HashMap<Origin, OriginPace>,
    /// While the engine is away.
    pub away: Away,
    pub addresses: AddressLimits,
    /// The memory that the lanes of all origins may take.
    pub lanes_bytes_max: usize,
}

/// The settings of one origin; `None` leaves one to the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginPace {
    pub mode: Option<PaceMode>,
    pub delay: Option<Duration>,
    pub concurrency: Option<usize>,
}

/// What all origins of one address have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressLimits {
    /// Between two starts.
    pub delay: Duration,
    /// Requests under way that count; 0: any number.
    pub concurrency: usize,
    /// Networks that serve many sites: their addresses have no limits.
    pub shared: Vec<IpNet>,
}

impl AddressLimits {
    pub(super) const fn are_set(&self) -> bool {
        !self.delay.is_zero() || self.concurrency > 0
    }

    pub(super) fn apply_to(&self, address: IpAddr) -> bool {
        self.are_set() && !self.shared.iter().any(|network| network.contains(&address))
    }
}

impl Config {
    /// No request waits: for commands that send single requests.
    pub fn off() -> Self {
        let lane = lane::Config {
            delay: Duration::ZERO,
            concurrency: usize::MAX,
            backoff_min: Duration::ZERO,
        };
        Self {
            mode: PaceMode::Off,
            lane,
            max_exchanges: usize::MAX,
            max_wait: Duration::ZERO,
            max_waiting_per_origin: 0,
            max_crawl_delay: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            origins: HashMap::new(),
            away: Away::Share,
            addresses: AddressLimits::default(),
            lanes_bytes_max: LANES_BYTES_MAX,
        }
    }

    /// The settings of the lane of `origin`. Where both schemes of a host have some, the stricter
    /// of each counts.
    pub(super) fn lane(&self, origin: &Origin) -> lane::Config {
        if self.origins.is_empty() {
            return self.lane;
        }
        let own = self.origins.get(origin);
        let other = origin.other_scheme().and_then(|other| self.origins.get(&other));
        let both = || own.into_iter().chain(other);
        lane::Config {
            delay: both().filter_map(|it| it.delay).max().unwrap_or(self.lane.delay),
            concurrency: both()
                .filter_map(|it| it.concurrency)
                .min()
                .unwrap_or(self.lane.concurrency),
            ..self.lane
        }
    }

    /// The operator's delay at `origin`.
    pub fn delay(&self, origin: &Origin) -> Duration {
        self.lane(origin).delay
    }

    /// The settings of the lane of an address. What its origins ask for is theirs.
    pub(super) const fn address_lane(&self) -> lane::Config {
        let AddressLimits { delay, concurrency, .. } = self.addresses;
        let concurrency = if concurrency == 0 { usize::MAX } else { concurrency };
        lane::Config { delay, concurrency, ..self.lane }
    }

    /// The mode at `origin`, for an agent without a mode of its own.
    pub fn mode(&self, origin: &Origin) -> PaceMode {
        if self.origins.is_empty() {
            return self.mode;
        }
        self.origins.get(origin).and_then(|own| own.mode).unwrap_or(self.mode)
    }
}

/// Requests that wait for their time, of all origins. Each keeps a connection of its client and some
/// 10 KiB.
pub const WAITING_MAX: usize = 16_384;

/// Bytes that the lanes of all origins may take, groups counted: some 400,000 lanes with one group.
/// Beyond, of the clients whose lanes take most, those lanes are forgotten that end first.
pub const LANES_BYTES_MAX: usize = 128 << 20;

/// The same of the lanes of addresses.
pub const ADDRESS_LANES_BYTES_MAX: usize = 16 << 20;

/// Lanes that are written at an end: of the clients with most of them, those with the longest times.
pub const KEPT_LANES_MAX: usize = 100_000;

/// A hold of this length is written when it begins.
pub const KEPT_HOLD_MIN: Duration = Duration::from_secs(30);

/// The longest delay that is believed of a written lane: the longest that any profile keeps.
pub const KEPT_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the requests of a visit have no delay at an origin, after the start there.
pub const VISIT_LENGTH: Duration = Duration::from_secs(30);

/// Requests of one visit to one origin.
pub const VISIT_REQUESTS_MAX: u32 = 256;

/// Origins of one visit. Requests to further ones are paced as pages.
pub const VISIT_ORIGINS_MAX: usize = 64;

/// Visits of one client at a time; beyond, the oldest is forgotten.
pub const VISITS_PER_CLIENT_MAX: usize = 256;

/// Origins of all visits at a time. Beyond, of the clients with most of them, the oldest visits are
/// forgotten.
pub const VISITED_ORIGINS_MAX: usize = 65_536;

/// The most that each may have of `total` where these are wanted, so that those that want less have
/// all of it (max-min fairness).
pub(super) fn fair_share(mut wanted: Vec<usize>, total: usize) -> usize {
    wanted.sort_unstable();
    let (mut left, mut others) = (total, wanted.len());
    for wanted in wanted {
        if wanted > left / others {
            return left / others;
        }
        (left, others) = (left - wanted, others - 1);
    }
    usize::MAX
}
