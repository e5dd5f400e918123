//! Limits and timeouts of a client's connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::units::{self, bytes};
use crate::proxy;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// `[limits]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's or an answer's head.
    #[serde(with = "units::size")]
    pub max_header_bytes: u64,
    /// Headers of a request.
    #[serde(with = "units::count")]
    pub max_headers: usize,
    /// Whether a request target is refused that would have to be percent-encoded.
    pub strict_target: bool,
    /// Bytes of memory for requests in flight, mostly bodies; the default is a quarter of the
    /// memory limit.
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

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_header_bytes: 64 * KIB,
            max_headers: 100,
            strict_target: false,
            body_memory: 256 * MIB,
            header_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            body_idle_timeout: Duration::from_mins(1),
            tunnel_idle_timeout: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(1),
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
            headers_max: self.max_headers,
            strict_target: self.strict_target,
        }
    }
}
