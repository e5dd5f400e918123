//! Which node of a cluster has a key.

use std::collections::HashMap;

use redis::Value;

use super::reply::Parts;
use super::settings::Address;

/// The hash slots of a cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key: that of its hash tag, if it has one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16 with the polynomial 0x1021, as XMODEM has it.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// The primaries of `CLUSTER SLOTS`, by the last slot of each range. A node that does not say where
/// it is is at the address that responded.
pub(super) fn ranges(reply: Value, asked: &Address) -> Option<Vec<(u16, u16, Address)>> {
    let mut parts = Parts::of(reply)?;
    let mut ranges = Vec::new();
    while let Some(range) = parts.value() {
        let mut range = Parts::of(range)?;
        let first = u16::try_from(range.number()?).ok()?;
        let last = u16::try_from(range.number()?).ok().filter(|last| *last < SLOTS)?;
        let mut node = Parts::of(range.value()?)?;
        let host = node.bytes().and_then(|host| String::from_utf8(host).ok());
        let port = u16::try_from(node.number()?).ok()?;
        ranges.push((first, last, node_address(host.as_deref(), port, asked)));
    }
    ranges.sort_by_key(|(first, ..)| *first);
    (!ranges.is_empty()).then_some(ranges)
}

/// The address that a redirection (`MOVED`, `ASK`) names: `host:port`.
pub(super) fn redirected(text: &str, asked: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Some(node_address(Some(host), port.parse().ok()?, asked))
}

fn node_address(host: Option<&str>, port: u16, asked: &Address) -> Address {
    let (own_host, is_tls) = match asked {
        Address::Tcp { host, is_tls, .. } => (host.as_str(), *is_tls),
        Address::Unix(_) => ("127.0.0.1", false),
    };
    let host = host.filter(|host| !host.is_empty() && *host != "?").unwrap_or(own_host);
    Address::Tcp { host: host.to_owned(), port, is_tls }
}

/// The addresses, each once.
pub(super) fn nodes(ranges: &[(u16, u16, Address)]) -> Vec<Address> {
    let mut seen = HashMap::new();
    let new = |address: &&Address| seen.insert((*address).clone(), ()).is_none();
    ranges.iter().map(|(.., address)| address).filter(new).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_of_a_key_is_what_the_specification_says() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        // As `CLUSTER KEYSLOT` has them.
        let cases: [(&[u8], u16); 4] =
            [(b"foo", 12182), (b"{foo}bar", 12182), (b"a{foo}{bar}", 12182), (b"", 0)];
        for (key, slot) in cases {
            assert_eq!(slot_of(key), slot, "{key:?}");
        }
        assert_eq!(slot_of(b"{}foo"), crc16(b"{}foo") % SLOTS, "an empty tag is none");
        assert_eq!(slot_of(b"{foo"), crc16(b"{foo") % SLOTS);
    }

    #[test]
    fn nodes_that_do_not_say_where_they_are_are_where_they_were_asked() {
        let asked = Address::Tcp { host: "seed".into(), port: 7000, is_tls: true };
        let node = |host: &str, port| Address::Tcp { host: host.into(), port, is_tls: true };
        assert_eq!(redirected("10.0.0.1:7001", &asked), Some(node("10.0.0.1", 7001)));
        assert_eq!(redirected(":7001", &asked), Some(node("seed", 7001)));
        assert_eq!(redirected("fd00::1:7001", &asked), Some(node("fd00::1", 7001)));
        assert_eq!(redirected("nothing", &asked), None);
    }

    #[test]
    fn ranges_are_in_order_and_nonsense_is_refused() {
        let asked = Address::Tcp { host: "seed".into(), port: 7000, is_tls: false };
        let text = b"*2\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nb\r\n:2\r\n\
            *3\r\n:0\r\n:8191\r\n*2\r\n$1\r\na\r\n:1\r\n";
        let ranges = ranges(redis::parse_redis_value(text).unwrap(), &asked).unwrap();
        let node = |host: &str, port| Address::Tcp { host: host.into(), port, is_tls: false };
        assert_eq!(ranges, [(0, 8191, node("a", 1)), (8192, 16383, node("b", 2))]);
        assert_eq!(nodes(&ranges), [node("a", 1), node("b", 2)]);
        for text in
            [&b"*0\r\n"[..], b"+OK\r\n", b"*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n"]
        {
            assert_eq!(super::ranges(redis::parse_redis_value(text).unwrap(), &asked), None);
        }
    }
}
