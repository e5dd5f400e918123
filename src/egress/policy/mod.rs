//! Which hosts and addresses egress may contact. By default only global unicast addresses: every
//! special-purpose block of the IANA registries is refused, and so is the name `localhost`.
//! `egress.allow` opens blocks; `egress.deny` closes more, and wins. The address itself is judged,
//! after DNS resolution. Hosts are permitted by the operator's lists, which hold names as requests
//! have them.

#[cfg(test)]
mod address_tests;

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use ipnet::IpNet;

use super::error::{Error, Failure};
use crate::types::origin::{Host, HostPattern};

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

// IPv4 addresses embedded in IPv6 addresses: a translator or a tunnel may lead a connection to the
// outer address to the inner one.

/// The IPv4 addresses embedded in `v6`. A prefix that a network chose for its own translator
/// (RFC 6052 §2.2, RFC 8215) cannot be distinguished from any other address.
pub fn embedded(v6: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> + Clone {
    let (one, other) = match v6.segments() {
        // IPv4-mapped and IPv4-compatible (RFC 4291 §2.5.5), but not :: and ::1.
        [0, 0, 0, 0, 0, 0xffff, high, low] => (Some(v4(high, low)), None),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => (Some(v4(high, low)), None),
        // IPv4-translated, of stateless translators (RFC 2765 §2.1).
        [0, 0, 0, 0, 0xffff, 0, high, low] => (Some(v4(high, low)), None),
        // NAT64 (RFC 6052 §2.1).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => (Some(v4(high, low)), None),
        // 6to4 (RFC 3056 §2).
        [0x2002, high, low, ..] => (Some(v4(high, low)), None),
        // Teredo: the server, and the client with every bit inverted (RFC 4380 §4).
        [0x2001, 0, high, low, _, _, client_high, client_low] => {
            (Some(v4(high, low)), Some(v4(!client_high, !client_low)))
        }
        // ISATAP, under any prefix (RFC 5214 §6.1).
        [.., 0 | 0x200, 0x5efe, high, low] => (Some(v4(high, low)), None),
        _ => (None, None),
    };
    one.into_iter().chain(other)
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

// What "private" means to `--allow-private`: loopback and the private blocks, and not link-local,
// where the metadata services of clouds are. Documentation, benchmarking and other special-purpose
// blocks are not among them.

/// The blocks that `--allow-private` adds to `egress.allow` (RFC 1918, RFC 4193, loopback).
pub const PRIVATE_BLOCKS: [&str; 6] =
    ["127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// Metadata services that stand within those blocks, and that `--allow-private` adds to
/// `egress.deny`: they stay closed, as link-local does.
pub const METADATA_BLOCKS: [&str; 3] =
    ["fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128"];

/// Whether `--allow-private` permits `ip`.
pub fn is_private(ip: IpAddr) -> bool {
    let is_in = |blocks: &[&str]| {
        blocks.iter().any(|block| block.parse().is_ok_and(|block: IpNet| block.contains(&ip)))
    };
    is_in(&PRIVATE_BLOCKS) && !is_in(&METADATA_BLOCKS)
}

/// `10.0.0.0/8`, `192.0.2.7:8080`, `[fd00::/64]:443`. One address is a block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    block: IpNet,
    /// None: every port.
    port: Option<u16>,
}

impl AddressBlock {
    /// Whether `address` lies in the block, at its port.
    pub fn contains(&self, address: SocketAddr) -> bool {
        self.block.contains(&address.ip()) && self.port.is_none_or(|port| port == address.port())
    }
}

/// One address, at every port.
impl From<IpAddr> for AddressBlock {
    fn from(address: IpAddr) -> Self {
        Self { block: address.into(), port: None }
    }
}

impl FromStr for AddressBlock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match block(text) {
            Some(block) => Some(Self { block, port: None }),
            None => block_and_port(text),
        };
        parsed.ok_or_else(|| {
            format!(
                "\"{text}\" is not an address block; write it as \"10.0.0.0/8\" or \"192.0.2.7\", \
                 or for one port as \"192.0.2.7:8080\" or \"[fd00::/64]:8080\""
            )
        })
    }
}

fn block(text: &str) -> Option<IpNet> {
    let block = text.parse::<IpNet>().map(|block| block.trunc());
    block.or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()
}

/// An IPv6 block is in brackets, as in a URL, to tell its own colons from the port's.
fn block_and_port(text: &str) -> Option<AddressBlock> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let block = block(bracketed.unwrap_or(host))?;
    let is_digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|port| *port != 0 && is_digits)?;
    (bracketed.is_some() == block.addr().is_ipv6())
        .then_some(AddressBlock { block, port: Some(port) })
}

/// In the form that is parsed. The block has its prefix length, except a single address with a
/// port.
impl fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.port, self.block) {
            (None, block) => block.fmt(f),
            (Some(port), IpNet::V4(block)) => write!(f, "{block}:{port}"),
            (Some(port), IpNet::V6(block)) => write!(f, "[{block}]:{port}"),
        }
    }
}

/// `egress.allow_hosts` and `egress.deny_hosts`.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    /// Empty: every host.
    pub allow: Vec<HostPattern>,
    /// Wins over `allow`.
    pub deny: Vec<HostPattern>,
}

impl HostRules {
    /// Judges whether `host` may be contacted.
    ///
    /// # Errors
    ///
    /// [`Failure::HostProhibited`] when the lists prohibit it.
    pub fn judge(&self, host: &Host) -> Result<(), Error> {
        let listed = |hosts: &[HostPattern]| hosts.iter().any(|pattern| pattern.matches(host));
        let why = if listed(&self.deny) {
            "is listed in egress.deny_hosts"
        } else if !self.allow.is_empty() && !listed(&self.allow) {
            "is not among the hosts that egress.allow_hosts lists"
        } else {
            return Ok(());
        };
        Err(Error::new(Failure::HostProhibited, format!("{host} {why}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::origin::{Origin, Scheme};

    #[test]
    fn each_form_of_embedded_ipv4_address_is_found() {
        for (outer, inner) in [
            ("::ffff:10.1.2.3", &["10.1.2.3"][..]),
            ("::10.1.2.3", &["10.1.2.3"]),
            ("::ffff:0:10.1.2.3", &["10.1.2.3"]),
            ("64:ff9b::10.1.2.3", &["10.1.2.3"]),
            ("2002:a01:203::1", &["10.1.2.3"]),
            // The example of RFC 4380 §4 as it is commonly cited.
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", &["65.54.227.120", "192.0.2.45"]),
            ("2001:db8::5efe:10.1.2.3", &["10.1.2.3"]),
            ("fe80::200:5efe:10.1.2.3", &["10.1.2.3"]),
            ("::", &[]),
            ("::1", &[]),
            ("::2", &["0.0.0.2"]),
            ("2606:4700::1111", &[]),
            ("2001:1::5efe:1", &[]),
        ] {
            let found: Vec<String> =
                embedded(outer.parse().unwrap()).map(|inner| inner.to_string()).collect();
            assert_eq!(found, inner, "{outer}");
        }
    }

    #[test]
    fn private_are_loopback_and_the_private_blocks_without_metadata() {
        let of = |text: &str| is_private(text.parse().unwrap());
        for private in ["127.0.0.1", "::1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "fd00::1"] {
            assert!(of(private), "{private}");
        }
        for other in [
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "2001:db8::1",
            "169.254.169.254",
            "fe80::1",
            "100.64.0.1",
            "0.0.0.0",
            "fd00:ec2::254",
            "::ffff:10.0.0.1",
            "8.8.8.8",
        ] {
            assert!(!of(other), "{other}");
        }
    }

    #[test]
    fn algorithm_6_an_entry_is_exactly_its_block_and_port() {
        for (entry, within, without) in [
            (
                "10.0.0.0/8",
                &["10.0.0.0:1", "10.255.255.255:65535"][..],
                &["9.255.255.255:1", "11.0.0.0:1"][..],
            ),
            ("10.1.2.3", &["10.1.2.3:80"], &["10.1.2.2:80", "10.1.2.4:80", "[::ffff:10.1.2.3]:80"]),
            ("10.1.2.3:8080", &["10.1.2.3:8080"], &["10.1.2.3:80", "10.1.2.4:8080"]),
            ("10.1.2.3/16:8080", &["10.1.9.9:8080"], &["10.1.9.9:8081", "10.2.0.0:8080"]),
            ("fd00::/64", &["[fd00::1]:80"], &["[fd00:0:0:1::]:80"]),
            ("[fd00::/64]:443", &["[fd00::1]:443"], &["[fd00::1]:80"]),
            ("[fd00::1]:443", &["[fd00::1]:443"], &["[fd00::2]:443"]),
            ("fd00::1:443", &["[fd00::1:443]:80"], &["[fd00::1]:443"]),
        ] {
            let block: AddressBlock = entry.parse().unwrap();
            let contains = |address: &str| block.contains(address.parse().unwrap());
            within.iter().for_each(|address| assert!(contains(address), "{entry} {address}"));
            without.iter().for_each(|address| assert!(!contains(address), "{entry} {address}"));
            assert_eq!(block.to_string().parse(), Ok(block), "{block}");
        }
    }

    #[test]
    fn text_that_is_no_block_is_refused() {
        for text in [
            "",
            "10",
            "10.0.0.0/33",
            "10.1.2.3:0",
            "10.1.2.3:+80",
            "10.1.2.3:65536",
            "10.1.2.3:",
            "[10.1.2.3]:80",
            "fd00::/64:80",
            "[fd00::1]",
            "example.com",
            "010.1.2.3",
            "fe80::1%eth0",
        ] {
            assert!(text.parse::<AddressBlock>().is_err(), "{text}");
        }
    }

    fn permitted(allow: &[&str], deny: &[&str], host: &str) -> bool {
        let patterns =
            |list: &[&str]| list.iter().map(|text| HostPattern::new(text).unwrap()).collect();
        let rules = HostRules { allow: patterns(allow), deny: patterns(deny) };
        let origin = Origin::from_authority(Scheme::Http, host).unwrap();
        match rules.judge(origin.host()) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.failure, Failure::HostProhibited);
                false
            }
        }
    }

    #[test]
    fn algorithm_6_host_lists_go_by_labels_and_deny_wins() {
        let site: &[&str] = &["example.com", "*.example.com"];
        for (allow, deny, host, expected) in [
            (&[][..], &[][..], "anything.example", true),
            (&[], site, "Example.COM.", false),
            (&[], site, "a.b.example.com", false),
            (&[], site, "notexample.com", true),
            (&[], site, "example.com.evil.example", true),
            (site, &[], "example.com", true),
            (site, &[], "www.example.com", true),
            (site, &[], "example.org", false),
            (site, &[], "8.8.8.8", false),
            (&["8.8.8.8"], &[], "8.8.8.8", true),
            (site, &["private.example.com"], "private.example.com", false),
            (site, &["private.example.com"], "public.example.com", true),
        ] {
            assert_eq!(permitted(allow, deny, host), expected, "{allow:?} {deny:?} {host}");
        }
    }
}
