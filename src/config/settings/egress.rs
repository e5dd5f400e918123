//! Connections to origins.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::names::Via;
use crate::config::units;
use crate::egress::AddressBlock;
use crate::proxy::Protocol;
use crate::types::origin::HostPattern;

/// `[egress]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Special-purpose blocks that are permitted, at every port or at one.
    pub allow: Vec<AddressBlock>,
    /// Blocks that may not be reached; wins over `allow`.
    pub deny: Vec<AddressBlock>,
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
    /// Concurrent requests to one origin.
    #[serde(with = "units::count")]
    pub max_per_origin: usize,
    /// Idle connections to all origins.
    pub max_idle: usize,
    /// Concurrent DNS lookups.
    #[serde(with = "units::count")]
    pub max_lookups: usize,
    /// The ports of CONNECT.
    pub connect_ports: Vec<u16>,
    /// The protocols that a request may upgrade to (RFC 9110 §7.8).
    pub upgrades: Vec<Protocol>,
    pub via: Via,
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            deny: Vec::new(),
            allow_hosts: Vec::new(),
            deny_hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            response_timeout: Duration::from_mins(1),
            idle_timeout: Duration::from_secs(30),
            max_per_origin: 256,
            max_idle: 1024,
            max_lookups: 256,
            connect_ports: vec![80, 443],
            upgrades: vec![Protocol::websocket()],
            via: Via::As("courtesy".into()),
        }
    }
}
