//! The key under which resources of a client are counted.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

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
