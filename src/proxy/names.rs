//! Which fields a message has, of those that are treated in a way of their own. Each is asked for in most
//! messages and there in few: one pass over the names costs less than a look-up for each.

use http::header::{
    CONNECTION, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Hop-by-hop even when `Connection` does not name them (RFC 9110 §7.6.1), and the credentials
/// and challenges of the hop (§11.7).
pub static HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    PROXY_AUTHORIZATION,
    PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("http2-settings"),
];

/// A set of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names(u16);

impl Names {
    /// By its place among [`HOP_BY_HOP`].
    const fn of_one_hop(place: usize) -> Self {
        Self(1 << place)
    }

    pub const CONNECTION: Self = Self::of_one_hop(0);
    pub const TE: Self = Self::of_one_hop(3);
    pub const UPGRADE: Self = Self::of_one_hop(5);
    pub const COOKIE: Self = Self(1 << 10);
    pub const EXPECT: Self = Self(1 << 11);
    pub const VIA: Self = Self(1 << 12);
    pub const PROXY_STATUS: Self = Self(1 << 13);
    /// `Courtesy-*`, and what may be taken for it.
    pub const OURS: Self = Self(1 << 14);

    /// Of those, the names that `fields` have.
    pub fn of(fields: &HeaderMap) -> Self {
        Self(fields.keys().fold(0, |names, name| names | Self::among(name).0))
    }

    /// As text: to compare with many names costs more than with their lengths.
    fn among(name: &HeaderName) -> Self {
        match name.as_str() {
            "connection" => Self::CONNECTION,
            "keep-alive" => Self::of_one_hop(1),
            "proxy-connection" => Self::of_one_hop(2),
            "te" => Self::TE,
            "transfer-encoding" => Self::of_one_hop(4),
            "upgrade" => Self::UPGRADE,
            "proxy-authorization" => Self::of_one_hop(6),
            "proxy-authenticate" => Self::of_one_hop(7),
            "proxy-authentication-info" => Self::of_one_hop(8),
            "http2-settings" => Self::of_one_hop(9),
            "cookie" => Self::COOKIE,
            "expect" => Self::EXPECT,
            "via" => Self::VIA,
            "proxy-status" => Self::PROXY_STATUS,
            text if is_ours(text) => Self::OURS,
            _ => Self(0),
        }
    }

    /// Whether one of `these` is among them.
    pub const fn have(self, these: Self) -> bool {
        self.0 & these.0 != 0
    }

    /// Those of one hop.
    pub fn hop_by_hop(self) -> impl Iterator<Item = &'static HeaderName> {
        let is_there = move |(place, name)| self.have(Self::of_one_hop(place)).then_some(name);
        HOP_BY_HOP.iter().enumerate().filter_map(is_there)
    }
}

/// Whether it is a field that only we may use, or one that some reader takes for it: gateways to programs
/// (RFC 3875 §4.1.18) and others make one of all signs that are no letters.
pub fn is_ours(name: &str) -> bool {
    let rest = name.strip_prefix("courtesy").and_then(|rest| rest.bytes().next());
    rest.is_some_and(|next| !next.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{COOKIE, EXPECT, VIA};

    use super::*;

    #[test]
    fn what_may_be_taken_for_ours_is_ours() {
        for ours in
            ["courtesy-record", "courtesy_record", "courtesy-", "courtesy.record", "courtesy~x"]
        {
            assert!(is_ours(ours), "{ours}");
        }
        for other in ["courtesy", "courtesyrecord", "x-courtesy-record", "courtesies-", "record"] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn each_name_is_found_and_no_other() {
        let one_hop = (0..HOP_BY_HOP.len())
            .map(|place| (HOP_BY_HOP[place].clone(), Names::of_one_hop(place)));
        let others = [
            (COOKIE, Names::COOKIE),
            (EXPECT, Names::EXPECT),
            (VIA, Names::VIA),
            (PROXY_STATUS, Names::PROXY_STATUS),
            (HeaderName::from_static("courtesy-record"), Names::OURS),
        ];
        let (mut fields, mut all, mut bits) = (HeaderMap::new(), Vec::new(), 0);
        fields.insert("accept", HeaderValue::from_static("*/*"));
        fields.insert("x-courtesy-record", HeaderValue::from_static(""));
        assert_eq!(Names::of(&fields), Names(0));
        for (name, expected) in one_hop.chain(others) {
            assert_eq!(Names::among(&name), expected, "{name}");
            fields.append(&name, HeaderValue::from_static("1"));
            fields.append(&name, HeaderValue::from_static("2"));
            (all, bits) = ([all, vec![expected]].concat(), bits | expected.0);
            assert_eq!(Names::of(&fields), Names(bits), "with {name}");
            assert!(all.iter().all(|one| Names(bits).have(*one)));
        }
        assert_eq!(bits.count_ones() as usize, all.len(), "each has a bit of its own");
        assert!(Names(bits).hop_by_hop().eq(&HOP_BY_HOP));
        assert_eq!(Names::of_one_hop(3).hop_by_hop().collect::<Vec<_>>(), [TE]);
        assert!(!Names::COOKIE.have(Names::EXPECT) && Names::COOKIE.hop_by_hop().next().is_none());
    }
}
