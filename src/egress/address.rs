//! Which addresses may be contacted. By default only global unicast: every special-purpose block
//! of the IANA registries is refused, and so is the name `localhost`; `egress.allow` opens blocks,
//! `egress.deny` closes more and wins. Judged after resolution, on the address itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

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
    ("::/96", "IPv4-compatible, deprecated (RFC 4291)"),
    ("64:ff9b::/96", "NAT64 (RFC 6052)"),
    ("64:ff9b:1::/48", "local-use translation (RFC 8215)"),
    ("100::/64", "discard-only (RFC 6666)"),
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

/// All of IPv6 that is assigned as global unicast; what lies outside is refused.
const GLOBAL_UNICAST_V6: &str = "2000::/3";

/// What the operator opened and closed on top of the table.
#[derive(Clone, Debug)]
pub struct AddressPolicy {
    allow: Vec<IpNet>,
    deny: Vec<IpNet>,
    /// Our own listeners: never a destination, whatever is allowed.
    own: Vec<SocketAddr>,
    special: Vec<(IpNet, &'static str)>,
    global_v6: IpNet,
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prohibited {
    /// In `egress.deny`.
    Denied,
    /// In a special-purpose block that `egress.allow` does not open.
    Special(&'static str),
    /// One of the proxy's own listeners.
    OwnListener,
}

impl AddressPolicy {
    pub fn new(allow: Vec<IpNet>, deny: Vec<IpNet>, own: Vec<SocketAddr>) -> Self {
        let net = |text: &str| text.parse().expect("the table holds valid blocks");
        let special = SPECIAL.iter().map(|(block, why)| (net(block), *why)).collect();
        Self { allow, deny, own, special, global_v6: net(GLOBAL_UNICAST_V6) }
    }

    /// Whether `address` may be connected to: own listeners, then deny, allow, the table.
    pub fn judge(&self, address: SocketAddr) -> Result<(), Prohibited> {
        let ip = address.ip();
        // An IPv4 address written inside an IPv6 one is judged as both: either refusal counts.
        let forms = [Some(ip), embedded_v4(ip).map(IpAddr::V4)];
        let mut forms = forms.into_iter().flatten();
        if self.own.iter().any(|own| is_own(*own, address)) {
            return Err(Prohibited::OwnListener);
        }
        forms.try_for_each(|ip| self.judge_ip(ip))
    }

    fn judge_ip(&self, ip: IpAddr) -> Result<(), Prohibited> {
        if self.deny.iter().any(|block| block.contains(&ip)) {
            return Err(Prohibited::Denied);
        }
        if self.allow.iter().any(|block| block.contains(&ip)) {
            return Ok(());
        }
        match self.special.iter().find(|(block, _)| block.contains(&ip)) {
            Some((_, why)) => Err(Prohibited::Special(why)),
            None if ip.is_ipv6() && !self.global_v6.contains(&ip) => {
                Err(Prohibited::Special("not global unicast (RFC 4291)"))
            }
            None => Ok(()),
        }
    }
}

/// A listener on all addresses is reached through any loopback address too, and one on loopback
/// through the unspecified address; an IPv4-mapped address is the IPv4 address (RFC 4291 §2.5.5.2).
fn is_own(own: SocketAddr, address: SocketAddr) -> bool {
    let [here, there] = [own, address].map(|it| it.ip().to_canonical());
    own.port() == address.port()
        && (here == there
            || here.is_unspecified() && (there.is_loopback() || there.is_unspecified())
            || here.is_loopback() && there.is_unspecified())
}

/// The IPv4 address carried by a mapped, NAT64 or 6to4 address (RFC 4291, RFC 6052, RFC 3056).
fn embedded_v4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = ip else { return None };
    let s = v6.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        [0x0064, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => Ipv6Addr::to_ipv4_mapped(&v6),
    }
}

impl std::fmt::Display for Prohibited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Denied => f.write_str("listed in egress.deny"),
            Self::Special(why) => f.write_str(why),
            Self::OwnListener => f.write_str("one of the proxy's own listeners"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(allow: &[&str], deny: &[&str]) -> AddressPolicy {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
        AddressPolicy::new(nets(allow), nets(deny), vec!["127.0.0.1:3128".parse().unwrap()])
    }

    fn permitted(policy: &AddressPolicy, ip: &str) -> bool {
        policy.judge(SocketAddr::new(ip.parse().unwrap(), 80)).is_ok()
    }

    #[test]
    fn special_purpose_addresses_are_refused_by_default() {
        let policy = policy(&[], &[]);
        for ip in [
            "0.0.0.0",
            "10.1.2.3",
            "100.100.100.200",
            "127.9.9.9",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001::1",
            "2002:7f00:1::",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!permitted(&policy, ip), "{ip}");
        }
        for ip in ["8.8.8.8", "172.32.0.1", "192.175.48.1", "2606:4700::1111", "2620:4f:8000::1"] {
            assert!(permitted(&policy, ip), "{ip}");
        }
    }

    #[test]
    fn deny_wins_over_allow_and_allow_opens_only_its_block() {
        let policy = policy(&["10.0.0.0/8", "::ffff:0:0/96"], &["10.1.0.0/16", "8.8.8.0/24"]);
        assert!(permitted(&policy, "10.2.0.1"));
        assert!(!permitted(&policy, "10.1.0.1"));
        assert!(!permitted(&policy, "8.8.8.8"));
        assert!(!permitted(&policy, "127.0.0.1"));
        assert!(permitted(&policy, "::ffff:10.2.0.1"));
        assert!(!permitted(&policy, "::ffff:192.168.0.1"), "the carried address is judged too");
    }

    #[test]
    fn own_listeners_are_refused_even_when_their_block_is_allowed() {
        let policy = policy(&["127.0.0.0/8"], &[]);
        let judge = |address: &str| policy.judge(address.parse().unwrap());
        for own in ["127.0.0.1:3128", "[::ffff:127.0.0.1]:3128", "0.0.0.0:3128"] {
            assert_eq!(judge(own), Err(Prohibited::OwnListener), "{own}");
        }
        assert_eq!(judge("127.0.0.1:8080"), Ok(()));
    }
}
