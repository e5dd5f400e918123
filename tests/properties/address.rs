//! The address policy refuses just what the registries say, by a table of its own that is numbers and
//! not blocks; and an IPv4 address inside an IPv6 one is never permitted where it is refused by itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use courtesy::egress::AddressPolicy;

use super::input::Input;

/// First and last address of what is refused (IANA IPv4 Special-Purpose Address Registry, the multicast
/// and reserved space, and one cloud's internal service).
const V4: [([u8; 4], [u8; 4]); 16] = [
    ([0, 0, 0, 0], [0, 255, 255, 255]),
    ([10, 0, 0, 0], [10, 255, 255, 255]),
    ([100, 64, 0, 0], [100, 127, 255, 255]),
    ([127, 0, 0, 0], [127, 255, 255, 255]),
    ([168, 63, 129, 16], [168, 63, 129, 16]),
    ([169, 254, 0, 0], [169, 254, 255, 255]),
    ([172, 16, 0, 0], [172, 31, 255, 255]),
    ([192, 0, 0, 0], [192, 0, 0, 255]),
    ([192, 0, 2, 0], [192, 0, 2, 255]),
    ([192, 88, 99, 0], [192, 88, 99, 255]),
    ([192, 168, 0, 0], [192, 168, 255, 255]),
    ([198, 18, 0, 0], [198, 19, 255, 255]),
    ([198, 51, 100, 0], [198, 51, 100, 255]),
    ([203, 0, 113, 0], [203, 0, 113, 255]),
    ([224, 0, 0, 0], [239, 255, 255, 255]),
    ([240, 0, 0, 0], [255, 255, 255, 255]),
];

/// What is refused of 2000::/3, by the first two groups (IANA IPv6 Special-Purpose Address Registry);
/// outside it, everything is.
const V6: [(u32, u32); 4] = [
    // 2001::/23
    (0x2001_0000, 0x2001_01ff),
    (0x2001_0db8, 0x2001_0db8),
    (0x2002_0000, 0x2002_ffff),
    // 3fff::/20
    (0x3fff_0000, 0x3fff_0fff),
];

/// A number below five for how an IPv4 address is written, and the address; or any other and an IPv6
/// address.
pub fn holds(bytes: &[u8]) {
    let mut input = Input(bytes);
    let form = input.byte();
    let number = u128::from(input.number()) << 64 | u128::from(input.number());
    let v4 = Ipv4Addr::from((number >> 96) as u32);
    let ip = match form {
        0 => IpAddr::V4(v4),
        1 => IpAddr::V6(v4.to_ipv6_mapped()),
        2 => IpAddr::V6(Ipv6Addr::from(0x0064_ff9b_u128 << 96 | u128::from(u32::from(v4)))),
        3 => IpAddr::V6(Ipv6Addr::from(0x2002_u128 << 112 | u128::from(u32::from(v4)) << 80)),
        4 => IpAddr::V6(Ipv6Addr::from(0xffff_u128 << 48 | u128::from(u32::from(v4)))),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    };
    assert_eq!(permits(&closed(), ip), is_public(ip), "{ip}");
    if form < 5 {
        let opened = permits(&opened_for_v6(), ip);
        assert_eq!(opened, is_public_v4(v4), "{ip} carries {v4}");
    }
}

fn permits(policy: &AddressPolicy, ip: IpAddr) -> bool {
    policy.judge(SocketAddr::new(ip, 443)).is_ok()
}

/// As it is by default.
fn closed() -> AddressPolicy {
    AddressPolicy::new(Vec::new(), Vec::new(), Vec::new())
}

/// With every form of IPv6 allowed: then only the address that is carried counts.
fn opened_for_v6() -> AddressPolicy {
    AddressPolicy::new(vec!["::/0".parse().expect("a block")], Vec::new(), Vec::new())
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => {
            let groups = v6.segments();
            let first = u32::from(groups[0]) << 16 | u32::from(groups[1]);
            (0x2000..=0x3fff).contains(&groups[0])
                && !V6.iter().any(|(from, to)| (*from..=*to).contains(&first))
        }
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    !V4.iter().any(|(from, to)| (*from..=*to).contains(&v4.octets()))
}
