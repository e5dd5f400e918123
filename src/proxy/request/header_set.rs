//! Which headers a message has, of those that the proxy treats in a special way. Most messages are
//! checked for all of them and have few: one pass over the names costs less than a lookup of each.

use http::header::{
    CONNECTION, HeaderMap, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRANSFER_ENCODING, UPGRADE,
};

/// RFC 9209.
pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Hop-by-hop headers, even if `Connection` does not name them (RFC 9110 §7.6.1), and the
/// credentials and challenges of the hop (§11.7).
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

/// Header names, as bits: those that a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderSet(u16);

impl HeaderSet {
    /// The header at `index` of [`HOP_BY_HOP`].
    const fn hop(index: usize) -> Self {
        Self(1 << index)
    }

    /// `Connection`.
    pub const CONNECTION: Self = Self::hop(0);
    /// `TE`.
    pub const TE: Self = Self::hop(3);
    /// `Upgrade`.
    pub const UPGRADE: Self = Self::hop(5);
    /// `Cookie`.
    pub const COOKIE: Self = Self(1 << 10);
    /// `Expect`.
    pub const EXPECT: Self = Self(1 << 11);
    /// `Via`.
    pub const VIA: Self = Self(1 << 12);
    /// `Proxy-Status`.
    pub const PROXY_STATUS: Self = Self(1 << 13);
    /// `Courtesy-*`, and names that some reader takes for it.
    pub const OURS: Self = Self(1 << 14);

    /// What concerns the pace of a request: `Prefer`, `Referer`, and the marks of a browser.
    pub const PACE: Self = Self(1 << 15);

    /// The headers of the set that are in `headers`.
    pub fn of(headers: &HeaderMap) -> Self {
        Self(headers.keys().fold(0, |set, name| set | Self::from_name(name).0))
    }

    /// Matches text: the compiler compares lengths first, which costs less than comparing names.
    fn from_name(name: &HeaderName) -> Self {
        match name.as_str() {
            "connection" => Self::CONNECTION,
            "keep-alive" => Self::hop(1),
            "proxy-connection" => Self::hop(2),
            "te" => Self::TE,
            "transfer-encoding" => Self::hop(4),
            "upgrade" => Self::UPGRADE,
            "proxy-authorization" => Self::hop(6),
            "proxy-authenticate" => Self::hop(7),
            "proxy-authentication-info" => Self::hop(8),
            "http2-settings" => Self::hop(9),
            "cookie" => Self::COOKIE,
            "expect" => Self::EXPECT,
            "via" => Self::VIA,
            "proxy-status" => Self::PROXY_STATUS,
            "prefer" | "referer" | "sec-fetch-dest" | "upgrade-insecure-requests" => Self::PACE,
            text if is_ours(text) => Self::OURS,
            _ => Self(0),
        }
    }

    /// Whether the set has one of `these`.
    pub const fn has(self, these: Self) -> bool {
        self.0 & these.0 != 0
    }

    /// The hop-by-hop headers of the set.
    pub fn hop_by_hop(self) -> impl Iterator<Item = &'static HeaderName> {
        let is_there = move |(index, name)| self.has(Self::hop(index)).then_some(name);
        HOP_BY_HOP.iter().enumerate().filter_map(is_there)
    }
}

/// Whether `name` is reserved for the proxy (`Courtesy-*`), or a reader may take it for such a
/// name: CGI (RFC 3875 §4.1.18) and others replace all signs that are no letters by one.
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
    fn names_that_read_like_ours_are_ours() {
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
        let one_hop =
            (0..HOP_BY_HOP.len()).map(|place| (HOP_BY_HOP[place].clone(), HeaderSet::hop(place)));
        let others = [
            (COOKIE, HeaderSet::COOKIE),
            (EXPECT, HeaderSet::EXPECT),
            (VIA, HeaderSet::VIA),
            (PROXY_STATUS, HeaderSet::PROXY_STATUS),
            (HeaderName::from_static("courtesy-record"), HeaderSet::OURS),
        ];
        let (mut fields, mut all, mut bits) = (HeaderMap::new(), Vec::new(), 0);
        fields.insert("accept", HeaderValue::from_static("*/*"));
        fields.insert("x-courtesy-record", HeaderValue::from_static(""));
        assert_eq!(HeaderSet::of(&fields), HeaderSet(0));
        for (name, expected) in one_hop.chain(others) {
            assert_eq!(HeaderSet::from_name(&name), expected, "{name}");
            fields.append(&name, HeaderValue::from_static("1"));
            fields.append(&name, HeaderValue::from_static("2"));
            (all, bits) = ([all, vec![expected]].concat(), bits | expected.0);
            assert_eq!(HeaderSet::of(&fields), HeaderSet(bits), "with {name}");
            assert!(all.iter().all(|one| HeaderSet(bits).has(*one)));
        }
        assert_eq!(bits.count_ones() as usize, all.len(), "each has a bit of its own");
        assert!(HeaderSet(bits).hop_by_hop().eq(&HOP_BY_HOP));
        assert_eq!(HeaderSet::hop(3).hop_by_hop().collect::<Vec<_>>(), [TE]);
        assert!(
            !HeaderSet::COOKIE.has(HeaderSet::EXPECT)
                && HeaderSet::COOKIE.hop_by_hop().next().is_none()
        );
    }
}
