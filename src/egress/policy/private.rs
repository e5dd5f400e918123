//! What "private" means to `--allow-private`: loopback and the private blocks, and not link-local,
//! where the metadata services of clouds are. Documentation, benchmarking and other special-purpose
//! blocks are not among them.

use std::net::IpAddr;

use ipnet::IpNet;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
