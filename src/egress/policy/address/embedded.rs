//! IPv4 addresses embedded in IPv6 addresses: a translator or a tunnel may lead a connection to the
//! outer address to the inner one.

use std::net::{Ipv4Addr, Ipv6Addr};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
