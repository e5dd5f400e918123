//! The address policy against expectations that are written down apart from its table: ranges, as
//! the registries and "Refuse by default" of the design have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use proptest::prelude::*;

use super::*;

/// First and last address of what is refused, and a word of the reason.
const REFUSED_V4: &[(&str, &str, &str)] = &[
    ("0.0.0.0", "0.255.255.255", "this network"),
    ("10.0.0.0", "10.255.255.255", "private"),
    ("100.64.0.0", "100.127.255.255", "shared"),
    ("127.0.0.0", "127.255.255.255", "loopback"),
    ("168.63.129.16", "168.63.129.16", "cloud"),
    ("169.254.0.0", "169.254.255.255", "link-local"),
    ("172.16.0.0", "172.31.255.255", "private"),
    ("192.0.0.0", "192.0.0.255", "assignments"),
    ("192.0.2.0", "192.0.2.255", "documentation"),
    ("192.88.99.0", "192.88.99.255", "6to4"),
    ("192.168.0.0", "192.168.255.255", "private"),
    ("198.18.0.0", "198.19.255.255", "benchmarking"),
    ("198.51.100.0", "198.51.100.255", "documentation"),
    ("203.0.113.0", "203.0.113.255", "documentation"),
    ("224.0.0.0", "239.255.255.255", "multicast"),
    ("240.0.0.0", "255.255.255.255", "reserved"),
];

const REFUSED_V6: &[(&str, &str, &str)] = &[
    ("::", "::", "unspecified"),
    ("::1", "::1", "loopback"),
    ("::2", "::ffff:ffff", "compatible"),
    ("::1:0:0", "::fffe:ffff:ffff", "not global"),
    ("::ffff:0:0", "::ffff:ffff:ffff", "mapped"),
    ("::1:0:0:0", "::fffe:ffff:ffff:ffff", "not global"),
    ("::ffff:0:0:0", "::ffff:0:ffff:ffff", "translated"),
    ("::ffff:1:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("64:ff9b::", "64:ff9b::ffff:ffff", "NAT64"),
    ("64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "local-use"),
    ("64:ff9b:2::", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("100::", "100::ffff:ffff:ffff:ffff", "discard"),
    ("100:0:0:1::", "100::1:ffff:ffff:ffff:ffff", "dummy"),
    ("100:0:0:2::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "assignments"),
    ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "6to4"),
    ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "documentation"),
    ("4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "segment"),
    ("5f01::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "unique local"),
    ("fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "not global"),
    ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "link-local"),
    ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "site-local"),
    ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
];

fn v4(text: &str) -> u32 {
    text.parse::<Ipv4Addr>().unwrap().into()
}

fn v6(text: &str) -> u128 {
    text.parse::<Ipv6Addr>().unwrap().into()
}

fn reason_v4(address: u32) -> Option<&'static str> {
    let found =
        REFUSED_V4.iter().find(|(first, last, _)| (v4(first)..=v4(last)).contains(&address));
    found.map(|(_, _, reason)| *reason)
}

fn reason_v6(address: u128) -> Option<&'static str> {
    let found =
        REFUSED_V6.iter().find(|(first, last, _)| (v6(first)..=v6(last)).contains(&address));
    found.map(|(_, _, reason)| *reason)
}

fn policy(allow: &[&str], deny: &[&str], own: &[&str]) -> AddressPolicy {
    let endpoints = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    let own = own.iter().map(|text| text.parse().unwrap()).collect();
    AddressPolicy::new(endpoints(allow), endpoints(deny), own)
}

fn judge(policy: &AddressPolicy, ip: impl Into<IpAddr>) -> Result<(), Prohibition> {
    policy.judge(SocketAddr::new(ip.into(), 80))
}

#[track_caller]
fn assert_judged(policy: &AddressPolicy, ip: impl Into<IpAddr>, reason: Option<&str>) {
    let ip = ip.into();
    match (judge(policy, ip), reason) {
        (Ok(()), None) => {}
        (Err(Prohibition::Special(why)), Some(reason)) if why.contains(reason) => {}
        (judged, reason) => panic!("{ip}: {judged:?}, expected {reason:?}"),
    }
}

#[test]
fn each_block_is_refused_from_its_first_address_to_its_last() {
    let policy = policy(&[], &[], &[]);
    for (first, last, _) in REFUSED_V4 {
        let around =
            [v4(first).checked_sub(1), Some(v4(first)), Some(v4(last)), v4(last).checked_add(1)];
        for address in around.into_iter().flatten() {
            assert_judged(&policy, Ipv4Addr::from(address), reason_v4(address));
        }
    }
    for (first, last, _) in REFUSED_V6 {
        let around =
            [v6(first).checked_sub(1), Some(v6(first)), Some(v6(last)), v6(last).checked_add(1)];
        for address in around.into_iter().flatten() {
            assert_judged(&policy, Ipv6Addr::from(address), reason_v6(address));
        }
    }
}

#[test]
fn metadata_services_are_refused_and_global_addresses_are_not() {
    let policy = policy(&[], &[], &[]);
    let parse = |ip: &str| ip.parse::<IpAddr>().unwrap();
    for metadata in [
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    ] {
        assert!(judge(&policy, parse(metadata)).is_err(), "{metadata}");
    }
    // In the registries, and globally reachable.
    for global in [
        "192.31.196.1",
        "192.52.193.1",
        "192.175.48.1",
        "2620:4f:8000::1",
        "8.8.8.8",
        "2606:4700::1111",
    ] {
        assert_eq!(judge(&policy, parse(global)), Ok(()), "{global}");
    }
}

#[test]
fn algorithm_6_own_then_deny_then_allow_then_the_table() {
    let policy = policy(
        &["127.0.0.0/8", "10.0.0.0/8", "192.168.1.1:8080"],
        &["10.1.0.0/16", "8.8.8.0/24"],
        &["127.0.0.1:3128"],
    );
    let judge = |address: &str| policy.judge(address.parse().unwrap());
    for (address, expected) in [
        ("127.0.0.1:3128", Err(Prohibition::OwnListener)),
        ("127.0.0.1:8080", Ok(())),
        ("10.1.0.1:80", Err(Prohibition::Denied)),
        ("10.2.0.1:80", Ok(())),
        ("8.8.8.8:80", Err(Prohibition::Denied)),
        ("8.8.4.4:80", Ok(())),
        ("192.168.1.1:8080", Ok(())),
        ("192.168.1.1:80", Err(Prohibition::Special("private (RFC 1918)"))),
        ("192.168.1.2:8080", Err(Prohibition::Special("private (RFC 1918)"))),
        ("[::ffff:10.2.0.1]:80", Err(Prohibition::Special("IPv4-mapped"))),
    ] {
        assert_eq!(judge(address), expected, "{address}");
    }
}

#[test]
fn c15_an_own_listener_is_refused_under_each_of_its_names() {
    let everything: &[&str] = &["0.0.0.0/0", "::/0"];
    let own = |listener: &str, address: &str| {
        policy(everything, &[], &[listener]).judge(address.parse().unwrap())
            == Err(Prohibition::OwnListener)
    };
    for (listener, address, expected) in [
        ("127.0.0.1:3128", "127.0.0.1:3128", true),
        ("127.0.0.1:3128", "[::ffff:127.0.0.1]:3128", true),
        ("127.0.0.1:3128", "[64:ff9b::127.0.0.1]:3128", true),
        ("127.0.0.1:3128", "0.0.0.0:3128", true),
        ("127.0.0.1:3128", "127.0.0.1:3129", false),
        ("127.0.0.1:3128", "127.0.0.2:3128", false),
        ("0.0.0.0:3128", "127.0.0.1:3128", true),
        ("0.0.0.0:3128", "127.9.9.9:3128", true),
        ("0.0.0.0:3128", "0.0.0.0:3128", true),
        ("0.0.0.0:3128", "[::]:3128", true),
        ("0.0.0.0:3128", "8.8.8.8:3128", false),
        ("[::]:3128", "127.0.0.1:3128", true),
        ("[::]:3128", "[::]:3128", true),
        ("[::]:3128", "[2606:4700::1111]:3128", false),
    ] {
        assert_eq!(own(listener, address), expected, "{address} and a listener on {listener}");
    }
    // Through the address by which the machine speaks to others, too. Nothing is sent to find it.
    let outside = UdpSocket::bind("0.0.0.0:0").unwrap();
    if outside.connect("8.8.8.8:53").is_ok() {
        let here = SocketAddr::new(outside.local_addr().unwrap().ip(), 3128).to_string();
        assert!(own("0.0.0.0:3128", &here), "{here}");
    }
}

/// Each way to carry an IPv4 address, with the block that has to be opened for it.
type Carrier = (&'static str, fn(u32) -> u128);

const CARRIERS: &[Carrier] = &[
    ("::ffff:0:0/96", |v4| 0xffff << 32 | u128::from(v4)),
    ("::ffff:0:0:0/96", |v4| 0xffff << 48 | u128::from(v4)),
    ("::/96", |v4| u128::from(v4)),
    ("64:ff9b::/96", |v4| 0x64_ff9b << 96 | u128::from(v4)),
    ("2002::/16", |v4| 0x2002 << 112 | u128::from(v4) << 80 | 1),
    // Behind a server at 8.8.8.8, and as a server for a client at 8.8.8.8.
    ("2001::/32", |v4| 0x2001_0000_0808_0808 << 64 | u128::from(!v4)),
    ("2001::/32", |v4| 0x2001_0000 << 96 | u128::from(v4) << 64 | u128::from(!0x0808_0808_u32)),
];

/// Anything, and often something near the edge of a block.
fn any_v4() -> impl Strategy<Value = u32> {
    let edge = (0..REFUSED_V4.len(), any::<bool>(), 0..3_u32).prop_map(|(row, first, offset)| {
        let (from, to, _) = REFUSED_V4[row];
        if first {
            v4(from).wrapping_sub(1).wrapping_add(offset)
        } else {
            v4(to).wrapping_sub(1).wrapping_add(offset)
        }
    });
    prop_oneof![any::<u32>(), edge]
}

fn any_v6() -> impl Strategy<Value = u128> {
    let edge = (0..REFUSED_V6.len(), any::<u64>())
        .prop_map(|(row, low)| v6(REFUSED_V6[row].0) ^ u128::from(low));
    prop_oneof![any::<u128>(), any::<u128>().prop_map(|bits| bits >> 3 | 1 << 125), edge]
}

proptest! {
    #[test]
    fn refuse_by_default_agrees_with_the_ranges(ip in any_v4(), wide in any_v6()) {
        let policy = policy(&[], &[], &[]);
        assert_judged(&policy, Ipv4Addr::from(ip), reason_v4(ip));
        // An ISATAP address is the one form that may be carried by a global one.
        let isatap = (wide >> 32) as u32 & 0xfdff_ffff == 0x5efe;
        let carried = reason_v4(wide as u32).filter(|_| isatap);
        assert_judged(&policy, Ipv6Addr::from(wide), reason_v6(wide).or(carried));
    }

    #[test]
    fn refuse_by_default_whatever_carries_an_address(ip in any_v4()) {
        let policy = policy(&[], &[], &[]);
        for (block, carry) in CARRIERS {
            prop_assert!(judge(&policy, Ipv6Addr::from(carry(ip))).is_err(), "{block}");
        }
        let isatap = (0x2606_4700_u128 << 96) | 0x5efe << 32 | u128::from(ip);
        prop_assert_eq!(judge(&policy, Ipv6Addr::from(isatap)), judge(&policy, Ipv4Addr::from(ip)));
    }

    #[test]
    fn algorithm_2_a_carried_address_is_judged_as_itself(ip in any_v4()) {
        // As compatible ones, 0.0.0.0 and 0.0.0.1 are :: and ::1, and carry nothing.
        prop_assume!(ip > 1);
        for (block, carry) in CARRIERS {
            let (carried, itself) = (Ipv6Addr::from(carry(ip)), Ipv4Addr::from(ip));
            let opened = policy(&[block], &[], &[]);
            prop_assert_eq!(judge(&opened, carried), judge(&opened, itself), "{}", carried);
            let closed = policy(&[block], &[&itself.to_string()], &[]);
            prop_assert_eq!(judge(&closed, carried), Err(Prohibition::Denied), "{}", carried);
            let own = policy(&[block, "0.0.0.0/0"], &[], &[&format!("{itself}:80")]);
            prop_assert_eq!(judge(&own, carried), Err(Prohibition::OwnListener), "{}", carried);
        }
    }
}
