//! Addresses of every class that is refused, addresses beside them that are not, and the ways to spell
//! them. Written from the registries of IANA and not from the program's table.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first and last of each block, and those in it that clouds answer on.
pub const REFUSED: [&str; 76] = [
    // This network (RFC 791); Linux takes 0.0.0.0 for itself.
    "0.0.0.0",
    "0.1.2.3",
    "0.255.255.255",
    // Private (RFC 1918).
    "10.0.0.0",
    "10.255.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.168.0.0",
    "192.168.255.255",
    // Shared (RFC 6598).
    "100.64.0.0",
    "100.100.100.200",
    "100.127.255.255",
    // Loopback.
    "127.0.0.1",
    "127.255.255.254",
    // A cloud's internal service.
    "168.63.129.16",
    // Link-local, metadata.
    "169.254.0.0",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.255.255",
    // Protocol assignments (RFC 6890).
    "192.0.0.0",
    "192.0.0.192",
    "192.0.0.255",
    // Documentation (RFC 5737).
    "192.0.2.0",
    "192.0.2.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    // 6to4 relays (RFC 7526).
    "192.88.99.0",
    "192.88.99.255",
    // Benchmarking (RFC 2544).
    "198.18.0.0",
    "198.19.255.255",
    // Multicast, reserved, broadcast.
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.255",
    // Unspecified, loopback, IPv4-compatible (RFC 4291).
    "::",
    "::1",
    "::2",
    "::8.8.8.8",
    "::ffff",
    // IPv4-mapped: no literal anybody needs.
    "::ffff:8.8.8.8",
    // Neither mapped nor global.
    "::ffff:0:8.8.8.8",
    // NAT64 (RFC 6052, RFC 8215).
    "64:ff9b::8.8.8.8",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    // Discard-only, dummy (RFC 6666, RFC 9780).
    "100::",
    "100::ffff:ffff:ffff:ffff",
    "100:0:0:1::",
    // Protocol assignments (RFC 2928): Teredo, benchmarking, ORCHID, drones.
    "2001::1",
    "2001:0:808:808:0:ffff:f5ff:fffe",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:30::1",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    // Documentation (RFC 3849, RFC 9637).
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    // 6to4 (RFC 3056).
    "2002:808:808::1",
    "2002:a00:1::1",
    // Segment routing (RFC 9602).
    "5f00::1",
    // Unique local (RFC 4193), metadata.
    "fc00::",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    // Site-local (RFC 3879), link-local, multicast.
    "fec0::1",
    "fe80::1",
    "ff02::1",
    // Not assigned as global unicast.
    "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::",
    "8000::1",
];

/// The neighbours of those blocks, and what the registries have as globally reachable.
pub const PERMITTED: [&str; 40] = [
    "1.0.0.0",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "192.175.48.1",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
    "2003::",
    "2606:4700::1111",
    "2620:4f:8000::1",
    "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff:1000::",
];

/// What no connection can be made to, whoever tries: the system itself refuses.
pub fn is_beyond_reach(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        // Link-local ones need a zone.
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unicast_link_local(),
    }
}

/// The host of a URL that says an address plainly.
pub fn plain(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// The other hosts that mean it to some parser: those that are read, and refused as the addresses they
/// are, and those that are refused unread.
pub fn spellings(address: IpAddr) -> (Vec<String>, Vec<String>) {
    match address {
        IpAddr::V4(v4) => spellings_of_v4(v4),
        IpAddr::V6(v6) => spellings_of_v6(v6),
    }
}

fn spellings_of_v4(address: Ipv4Addr) -> (Vec<String>, Vec<String>) {
    let bits = address.to_bits();
    let [a, b, c, d] = address.octets();
    let [ab, cd] = [bits >> 16, bits & 0xffff].map(|half| half as u16);
    let read = vec![
        format!("{address}."),
        // Mapped, compatible, NAT64, 6to4, Teredo (RFC 4291, RFC 6052, RFC 3056, RFC 4380).
        format!("[::ffff:{address}]"),
        format!("[::FFFF:{ab:x}:{cd:X}]"),
        format!("[0:0:0:0:0:ffff:{ab:04x}:{cd:04x}]"),
        format!("[::{address}]"),
        format!("[64:ff9b::{address}]"),
        format!("[64:ff9b:1::{address}]"),
        format!("[2002:{ab:x}:{cd:x}::1]"),
        format!("[2001:0:{ab:x}:{cd:x}:0:ffff:{:x}:{:x}]", !ab, !cd),
    ];
    let full_width = |text: &str| -> String {
        let wide = |digit: char| char::from_u32(u32::from(digit) - u32::from('0') + 0xff10);
        text.chars()
            .map(|it| if it.is_ascii_digit() { wide(it).expect("a digit") } else { it })
            .collect()
    };
    let percent = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let dotted = address.to_string();
    let unread = vec![
        // One number, two, three.
        format!("{bits}"),
        format!("{bits:#x}"),
        format!("{bits:#X}"),
        format!("0{bits:o}"),
        format!("{}", u64::from(bits) + (1 << 32)),
        format!("{a}.{}", bits & 0x00ff_ffff),
        format!("{a}.{b}.{cd}"),
        // Octal, hexadecimal, both, with too many digits.
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("{a}.{b:#x}.0{c:o}.{d}"),
        format!("{a:04}.{b:04}.{c:04}.{d:04}"),
        format!("{}.{b}.{c}.{d}", u32::from(a) + 256),
        // Digits and dots of other scripts (UTS 46 makes plain ones of them).
        full_width(&dotted),
        full_width(&bits.to_string()),
        dotted.replace('.', "\u{3002}"),
        dotted.replace('.', "\u{ff0e}"),
        dotted.replace('.', "\u{ff61}"),
        // Encoded in part and whole.
        dotted.replace('.', "%2e"),
        percent(&dotted),
        percent(&full_width(&dotted)),
        format!("{dotted}%00.{}", super::world::names::ZONE),
        // What stands around it.
        format!("[{address}]"),
        format!("{address}.."),
        format!(".{address}"),
        format!("8.8.8.8@{address}"),
        format!("8.8.8.8\\@{address}"),
        format!("[::ffff:{address}%25lo]"),
        format!("[::ffff:{address}%lo]"),
        format!("{address}%25lo"),
    ];
    (read, unread)
}

fn spellings_of_v6(address: Ipv6Addr) -> (Vec<String>, Vec<String>) {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let read = vec![
        format!("[{a:04x}:{b:04x}:{c:04x}:{d:04x}:{e:04x}:{f:04x}:{g:04x}:{h:04x}]"),
        format!("[{a:X}:{b:X}:{c:X}:{d:X}:{e:X}:{f:X}:{g:X}:{h:X}]"),
        format!(
            "[{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{}]",
            Ipv4Addr::from_bits(u32::from(g) << 16 | u32::from(h))
        ),
    ];
    let unread = vec![
        format!("{address}"),
        format!("[{address}"),
        format!("[{address}]."),
        format!("[{address}%25lo]"),
        format!("[{address}%lo]"),
        format!("[{address}%251]"),
        format!("[{address}/64]"),
        format!("[[{address}]]"),
        format!("%5B{address}%5D"),
        format!("[v1.{address}]"),
    ];
    (read, unread)
}

/// Names of this machine, which are looked up nowhere, and one that only its own table has.
pub const LOCAL_NAMES: [&str; 8] = [
    "localhost",
    "LOCALHOST",
    "LocalHost.",
    "x.localhost",
    "X.Y.LocalHost.",
    "ip6-localhost",
    "listed",
    "Listed.",
];

/// `localhost` in letters that are plain ones to some parsers (UTS 46).
pub const DISGUISED: &str = "\u{ff4c}\u{24de}\u{ff43}\u{ff41}\u{ff4c}host";
