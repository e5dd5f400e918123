//! Which addresses may be contacted. By default only global unicast: every special-purpose block
//! of the IANA registries is refused, and so is the name `localhost`. `egress.allow` opens blocks;
//! `egress.deny` closes more, and wins. The address itself is judged, after DNS resolution.

mod embedded;
#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use ipnet::IpNet;

use super::address_block::AddressBlock;
use embedded::embedded;

/// The blocks refused by default and why, most specific first where blocks nest (IANA IPv4 and
/// IPv6 Special-Purpose Address Registries, RFC 6890, RFC 9637, RFC 9780; the cloud's internal
/// service addresses on public ranges).
const SPECIAL: &[(&str, &str)] = &[
    ("0.0.0.0/8", "this network (RFC 791)"),
    ("10.0.0.0/8", "private (RFC 1918)"),
    ("100.64.0.0/10", "shared address space (RFC 6598)"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "a cloud provider's internal service"),
    ("169.254.0.0/16", "link-local, cloud metadata (RFC 3927)"),
    ("172.16.0.0/12", "private (RFC 1918)"),
    ("192.0.0.0/24", "IETF protocol assignments (RFC 6890)"),
    ("192.0.2.0/24", "documentation (RFC 5737)"),
    ("192.88.99.0/24", "6to4 relay (RFC 7526)"),
    ("192.168.0.0/16", "private (RFC 1918)"),
    ("198.18.0.0/15", "benchmarking (RFC 2544)"),
    ("198.51.100.0/24", "documentation (RFC 5737)"),
    ("203.0.113.0/24", "documentation (RFC 5737)"),
    ("224.0.0.0/4", "multicast (RFC 5771)"),
    ("240.0.0.0/4", "reserved (RFC 1112)"),
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("::ffff:0:0/96", "IPv4-mapped"),
    ("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"),
    ("::/96", "IPv4-compatible, deprecated (RFC 4291)"),
    ("64:ff9b::/96", "NAT64 (RFC 6052)"),
    ("64:ff9b:1::/48", "local-use translation (RFC 8215)"),
    ("100::/64", "discard-only (RFC 6666)"),
    ("100:0:0:1::/64", "dummy prefix (RFC 9780)"),
    ("2001::/23", "IETF protocol assignments, Teredo (RFC 2928)"),
    ("2001:db8::/32", "documentation (RFC 3849)"),
    ("2002::/16", "6to4 (RFC 3056)"),
    ("3fff::/20", "documentation (RFC 9637)"),
    ("5f00::/16", "segment routing (RFC 9602)"),
    ("fc00::/7", "unique local (RFC 4193)"),
    ("fe80::/10", "link-local (RFC 4291)"),
    ("fec0::/10", "site-local, deprecated (RFC 3879)"),
    ("ff00::/8", "multicast (RFC 4291)"),
];

/// The part of IPv6 that is assigned as global unicast; the rest is refused.
const GLOBAL_UNICAST_V6: &str = "2000::/3";

/// The table, and what the operator opened and closed besides.
#[derive(Clone, Debug)]
pub struct AddressPolicy {
    allow: Vec<AddressBlock>,
    deny: Vec<AddressBlock>,
    /// The proxy's own listeners: never a destination, whatever is allowed.
    own: Vec<SocketAddr>,
    special: Vec<(IpNet, &'static str)>,
    global_v6: IpNet,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prohibition {
    /// In `egress.deny`.
    Denied,
    /// In a special-purpose block that `egress.allow` does not open.
    Special(&'static str),
    /// One of the proxy's own listeners.
    OwnListener,
}

impl AddressPolicy {
    /// A policy with the blocks of `egress.allow` and `egress.deny`, and the proxy's own listeners.
    pub fn new(allow: Vec<AddressBlock>, deny: Vec<AddressBlock>, own: Vec<SocketAddr>) -> Self {
        let net = |text: &str| text.parse().expect("the table holds valid blocks");
        let special = SPECIAL.iter().map(|(block, why)| (net(block), *why)).collect();
        Self { allow, deny, own, special, global_v6: net(GLOBAL_UNICAST_V6) }
    }

    /// Judges whether `address` may be connected to: by own listeners, then deny, allow, the table.
    /// An IPv4 address embedded in an IPv6 one is judged as both, and either refusal counts.
    ///
    /// # Errors
    ///
    /// Why it may not.
    pub fn judge(&self, address: SocketAddr) -> Result<(), Prohibition> {
        let embedded = match address.ip() {
            IpAddr::V6(v6) => Some(embedded(v6)),
            IpAddr::V4(_) => None,
        };
        let embedded =
            embedded.into_iter().flatten().map(|v4| SocketAddr::new(v4.into(), address.port()));
        let mut forms = std::iter::once(address).chain(embedded);
        if forms.clone().any(|form| self.own.iter().any(|own| leads_to(*own, form))) {
            return Err(Prohibition::OwnListener);
        }
        forms.try_for_each(|form| self.judge_form(form))
    }

    fn judge_form(&self, address: SocketAddr) -> Result<(), Prohibition> {
        if self.deny.iter().any(|block| block.contains(address)) {
            return Err(Prohibition::Denied);
        }
        if self.allow.iter().any(|block| block.contains(address)) {
            return Ok(());
        }
        let ip = address.ip();
        match self.special.iter().find(|(block, _)| block.contains(&ip)) {
            Some((_, why)) => Err(Prohibition::Special(why)),
            None if ip.is_ipv6() && !self.global_v6.contains(&ip) => {
                Err(Prohibition::Special("not global unicast (RFC 4291)"))
            }
            None => Ok(()),
        }
    }
}

/// Whether a connection to `address` reaches the listener `own`. A listener on all addresses is
/// reached through every address of this machine; the unspecified address leads to loopback, and an
/// IPv4-mapped address is the IPv4 address (RFC 4291 §2.5.5.2).
fn leads_to(own: SocketAddr, address: SocketAddr) -> bool {
    if own.port() != address.port() {
        return false;
    }
    let [here, there] = [own, address].map(|it| it.ip().to_canonical());
    here == there
        || there.is_unspecified() && (here.is_unspecified() || here.is_loopback())
        || here.is_unspecified() && is_of_this_machine(there)
}

/// Whether `ip` is an address of this machine at this moment: the system binds a socket to no
/// other. Sends nothing.
fn is_of_this_machine(ip: IpAddr) -> bool {
    match UdpSocket::bind((ip, 0)) {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::InvalidInput)
        }
    }
}

impl std::fmt::Display for Prohibition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied => f.write_str("listed in egress.deny"),
            Self::Special(why) => f.write_str(why),
            Self::OwnListener => f.write_str("one of the proxy's own listeners"),
        }
    }
}
