//! The schema of the settings. What each means to an operator is said in `config/courtesy.toml`; a
//! test keeps the two equal. Values are parsed types, which a
//! holder of [`Settings`] need not check again.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::enums::{LogFormat, LogLevel};
use super::rules::{AgentRule, Exemption, OriginRule};
use super::units;
use super::values::{AdminAddress, ContactUrl, FetchAs, NodeName, Retain, RetainSize, Via};
use crate::audit::{OnFailure, Sync};
use crate::egress::Endpoints;
use crate::egress::Roots;
use crate::policy::mode::Mode;
use crate::policy::profile::{Access, Meaning, OutageCopy, ProfileName};
use crate::proxy::Protocol;
use crate::proxy::{HttpsMode, Mixed};
use crate::robots::Spellings;
use crate::types::origin::{Host, HostPattern};
use crate::watch::Changes;

/// All settings, effective and checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where everything lives that must survive a restart. Filled in by loading when not set.
    pub state_dir: PathBuf,
    /// Threads that serve requests; absent: one per processor core.
    #[serde(with = "units::count_option")]
    pub workers: Option<usize>,
    pub listen: Listen,
    pub admin: Admin,
    pub clients: Clients,
    pub agents: Agents,
    pub robots: Robots,
    pub origins: Vec<OriginRule>,
    pub outage: Outage,
    pub exemptions: Vec<Exemption>,
    pub deny: Deny,
    pub https: Https,
    pub tls: Tls,
    pub egress: Egress,
    pub audit: Audit,
    pub store: Store,
    pub watch: Watch,
    pub limits: Limits,
    pub log: Log,
    /// Whether the proxy is that of one command, `courtesy run`, whose flags the remedies then name. Not a
    /// setting: no file has it.
    #[serde(skip)]
    pub under_run: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Listen {
    /// Where clients connect.
    #[serde(with = "units::listen")]
    pub proxy: Vec<SocketAddr>,
    /// Where health and metrics are told.
    pub admin: AdminAddress,
}

/// Who may look at the admin listener.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// A file with the token that requests need; absent: none is required.
    pub token_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clients {
    /// Who may use the proxy, beside loopback.
    #[serde(with = "units::blocks")]
    pub allow: Vec<IpNet>,
    /// Whether anybody may use the proxy.
    pub open: bool,
    /// Who may use the proxy by name and password; absent: nobody is asked.
    pub users_file: Option<PathBuf>,
    /// Client connections at one time.
    #[serde(with = "units::count")]
    pub max_connections: usize,
    /// Those of one client: of an address, and of a user.
    #[serde(with = "units::count")]
    pub max_per_client: usize,
    /// Requests under way of one client: of a user or, without users, of an address.
    #[serde(with = "units::count")]
    pub max_requests_per_client: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Whether a request without a User-Agent is refused.
    pub require: bool,
    /// The first that matches holds.
    pub rules: Vec<AgentRule>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Robots {
    pub profile: ProfileName,
    pub mode: Mode,
    pub fetch_as: FetchAs,
    /// By which a site finds the operator; sent with `fetch_as = "agent"`.
    pub contact: Option<ContactUrl>,
    /// For a whole fetch of a robots.txt, redirects included.
    #[serde(with = "units::duration")]
    pub fetch_timeout: Duration,
    /// How long a fetch has at the least, where others wait for its place.
    #[serde(with = "units::duration")]
    pub busy_fetch_timeout: Duration,
    /// Fetches under way at one time.
    #[serde(with = "units::count")]
    pub max_fetches: usize,
    /// Fetches that wait for their turn.
    #[serde(with = "units::count")]
    pub max_queued_fetches: usize,
    /// Requests that wait for a fetch.
    #[serde(with = "units::count")]
    pub max_waiting: usize,
    /// Bytes of a robots.txt that are read, counted after decoding.
    #[serde(with = "units::size")]
    pub max_size: u64,
    #[serde(with = "units::few")]
    pub max_redirects: u8,
    /// Bytes of memory for what is known of origins.
    #[serde(with = "units::size")]
    pub cache_size: u64,
    /// Origins that something is known of, at one time.
    #[serde(with = "units::non_zero")]
    pub cache_entries: NonZeroUsize,
    /// Whether a client's own request for a robots.txt is answered from the copy that decides.
    pub serve_cached: bool,
    /// In which spellings a path is compared with the rules; absent: as the profile has it.
    pub spellings: Option<Spellings>,
    pub knobs: Knobs,
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
}

/// What holds while a robots.txt is unreachable; absent: as the profile has it.
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
    #[serde(with = "units::duration_option")]
    pub retry_max: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deny {
    #[serde(with = "units::status")]
    pub status: StatusCode,
    /// Where the denial rests on a robots.txt that could not be had.
    #[serde(with = "units::status")]
    pub unreachable_status: StatusCode,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Https {
    pub mode: HttpsMode,
    /// Hosts that are tunnelled whatever the mode.
    pub tunnel: Vec<HostPattern>,
    /// What becomes of a mixed host in `classify` mode.
    pub mixed: Mixed,
    /// The certificate of a CA of the operator's own, PEM; absent: one is made in the state directory.
    pub ca_cert: Option<PathBuf>,
    /// Its key; both are set or neither.
    pub ca_key: Option<PathBuf>,
    /// Leaf certificates in memory.
    #[serde(with = "units::non_zero")]
    pub leaf_cache: NonZeroUsize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    pub roots: Roots,
    /// Files of further certificate authorities, PEM.
    pub extra_roots: Vec<PathBuf>,
    /// Hosts whose certificates are not verified.
    #[serde(with = "units::hosts")]
    pub insecure_origins: Vec<Host>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Special-purpose blocks that may be reached all the same, at every port or at one.
    pub allow: Vec<Endpoints>,
    /// Blocks that may not be reached; wins over `allow`.
    pub deny: Vec<Endpoints>,
    /// The hosts that may be asked for; none: all.
    pub allow_hosts: Vec<HostPattern>,
    /// Hosts that may not be asked for; wins over `allow_hosts`.
    pub deny_hosts: Vec<HostPattern>,
    #[serde(with = "units::duration")]
    pub connect_timeout: Duration,
    /// Until the head of the answer.
    #[serde(with = "units::duration")]
    pub response_timeout: Duration,
    /// How long an unused connection to an origin is kept.
    #[serde(with = "units::duration")]
    pub idle_timeout: Duration,
    /// Requests under way to one origin at one time.
    #[serde(with = "units::count")]
    pub max_per_origin: usize,
    /// Unused connections kept, in all.
    pub max_idle: usize,
    /// Look-ups of names under way at one time.
    #[serde(with = "units::count")]
    pub max_lookups: usize,
    /// Where CONNECT may go.
    pub connect_ports: Vec<u16>,
    /// What a request may upgrade its connection to.
    pub upgrades: Vec<Protocol>,
    pub via: Via,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Audit {
    /// Where the denial records are written; absent: `audit` in the state directory.
    pub dir: Option<PathBuf>,
    /// When records are brought to the disk itself.
    pub sync: Sync,
    /// What becomes of requests while records cannot be written.
    pub on_failure: OnFailure,
    /// How long the disk may take for one thing that is asked of it.
    #[serde(with = "units::duration")]
    pub write_timeout: Duration,
    /// The size at which a file of records is closed.
    #[serde(with = "units::size")]
    pub rotate_size: u64,
    /// The age at which a file of records is closed.
    #[serde(with = "units::duration")]
    pub rotate_age: Duration,
    /// How long closed files are kept.
    pub retain: Retain,
    /// How much room the log and its evidence may take.
    pub retain_size: RetainSize,
    /// Whether the values of a URL's query are replaced by keyed hashes.
    pub redact_query: bool,
    /// What this proxy is called in its lines; absent: as its host.
    pub node: Option<NodeName>,
}

/// Changes of robots.txt files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// Which of them have a notice in the log of denials.
    pub changes: Changes,
}

/// What is known of origins, kept over restarts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    pub enabled: bool,
    /// Bytes on the disk.
    #[serde(with = "units::size")]
    pub max_size: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's or an answer's head.
    #[serde(with = "units::size")]
    pub max_header_bytes: u64,
    #[serde(with = "units::count")]
    pub max_headers: usize,
    /// Whether a request target is refused that would have to be percent-encoded.
    pub strict_target: bool,
    /// Bytes of memory for requests under way, their bodies above all; without a setting a quarter of what the
    /// process may have.
    #[serde(with = "units::size")]
    pub body_memory: u64,
    /// For a client to send a request's head.
    #[serde(with = "units::duration")]
    pub header_timeout: Duration,
    /// For the first bytes inside a CONNECT, and for the TLS handshake.
    #[serde(with = "units::duration")]
    pub handshake_timeout: Duration,
    /// Between two pieces of a body, either way.
    #[serde(with = "units::duration")]
    pub body_idle_timeout: Duration,
    /// Without data either way on an upgraded connection.
    #[serde(with = "units::duration")]
    pub tunnel_idle_timeout: Duration,
    /// Between two requests of a client's connection.
    #[serde(with = "units::duration")]
    pub idle_timeout: Duration,
    /// For the requests in progress at shutdown.
    #[serde(with = "units::duration")]
    pub drain_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub level: LogLevel,
}

impl Settings {
    /// The directory of the denial records.
    pub fn audit_dir(&self) -> PathBuf {
        self.audit.dir.clone().unwrap_or_else(|| self.state_dir.join("audit"))
    }
}
