//! The clients that the proxy serves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::clients::{self, Users, UsersError};
use crate::config::units::{self, bytes};
use crate::proxy;

/// `[clients]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clients {
    /// Clients that may use the proxy, beside loopback.
    #[serde(with = "units::blocks")]
    pub allow: Vec<IpNet>,
    /// Clients of any address may use the proxy.
    pub open: bool,
    /// The users, with their passwords; absent: no authentication.
    pub users_file: Option<PathBuf>,
    /// Concurrent client connections.
    #[serde(with = "units::count")]
    pub max_connections: usize,
    /// Concurrent connections of one client: of an address, and of a user.
    #[serde(with = "units::count")]
    pub max_per_client: usize,
    /// Concurrent requests of one client: of a user or, without users, of an address.
    #[serde(with = "units::count")]
    pub max_requests_per_client: usize,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            open: false,
            users_file: None,
            max_connections: 10_000,
            max_per_client: 5000,
            max_requests_per_client: 5000,
        }
    }
}

impl Clients {
    /// The clients that are permitted. Reads the users from their file.
    pub fn build(&self) -> Result<clients::Clients, UsersError> {
        let users = self.users_file.as_deref().map(Users::load).transpose()?;
        Ok(clients::Clients {
            open: self.open,
            allow: self.allow.clone(),
            users: users.map(Arc::new),
            connections_max: self.max_connections,
            per_client_max: self.max_per_client,
            requests_max: self.max_requests_per_client,
        })
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's or an answer's head.
    #[serde(with = "units::size")]
    pub max_header_bytes: u64,
    /// Bytes of memory for requests in flight, mostly bodies; the default is a quarter of the
    /// memory limit.
    #[serde(with = "units::size")]
    pub body_memory: u64,
    /// For a client to send a request's head.
    #[serde(with = "units::duration")]
    pub header_timeout: Duration,
    /// For the first bytes inside a CONNECT, and for a client's TLS handshake: ten seconds, more than
    /// any handshake over a slow network takes. No setting; tests shorten it.
    #[serde(skip)]
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
    /// At shutdown, how long clients are still accepted while the proxy is not ready any more.
    #[serde(with = "units::delay")]
    pub drain_delay: Duration,
    /// For the requests in progress at shutdown, after that.
    #[serde(with = "units::duration")]
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_header_bytes: 64 * KIB,
            body_memory: 256 * MIB,
            header_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_mins(1),
            tunnel_idle_timeout: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(1),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(25),
        }
    }
}

impl Limits {
    /// The bounds of a client's connection.
    pub fn build(&self) -> proxy::Limits {
        proxy::Limits {
            timeouts: proxy::Timeouts {
                idle: self.idle_timeout,
                head: self.header_timeout,
                write: self.body_idle_timeout,
            },
            head_max: bytes(self.max_header_bytes),
        }
    }
}
