//! A block of addresses, at every port or at one: an entry of `egress.allow` or `egress.deny`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
