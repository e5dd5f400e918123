//! The words of the project as types: what origins, agents and times are called. Pure.

pub mod agent;
pub mod http_time;
pub mod loop_token;
pub mod origin;
pub mod problem;
pub mod sanitize;
pub mod timestamp;
pub mod words;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use sanitize::{from_hex, hex};

/// The key under which resources of a client are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// A user, by name.
    User(Arc<str>),
    /// An IPv4 address, or an IPv6 /64 network: one host has a whole one (RFC 4291 §2.5.4).
    Address(IpAddr),
    /// The proxy itself, which fetches on behalf of all clients.
    Proxy,
}

impl ClientKey {
    /// The key of a client without a user.
    pub fn of(address: IpAddr) -> Self {
        const NETWORK: u128 = !0 << 64;
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
            address => address,
        })
    }
}

/// 16 random bytes, in hexadecimal where they are written. Of two logs, both the first of one proxy
/// and the one that was begun in its place, each has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub [u8; 16]);

impl LogId {
    /// Parses 32 digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for LogId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LogId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("it is no identity of a log"))
    }
}

/// Bytes of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_BYTES_MAX: usize = 253;
