//! Headers that an intermediary removes or rewrites in a message that it forwards (RFC 9110 §7.6).

use http::header::{
    self, CONNECTION, COOKIE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING,
    UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Version};
use sfv::{BareItem, Item, List, ListEntry, Parser};

/// Headers that `Connection` cannot remove: they frame or route the message, or were decided on.
const NEVER_STRIPPED: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::MAX_FORWARDS,
    header::USER_AGENT,
    header::VIA,
];

/// The proxy's name in `Proxy-Status`.
const OUR_NAME: &str = "courtesy";

/// Removes headers that are meant for one hop: those that `Connection` names, itself, and those
/// that are hop-by-hop by definition. `header_set` is that of `headers`.
pub fn remove_hop_by_hop(headers: &mut HeaderMap, header_set: HeaderSet) {
    // The usual value names a header that is removed anyway.
    let is_everyday = |options: &HeaderValue| options == "keep-alive";
    if header_set.has(HeaderSet::CONNECTION) && !headers.get_all(CONNECTION).iter().all(is_everyday)
    {
        named_by_connection(headers).iter().for_each(|name| _ = headers.remove(name));
    }
    header_set.hop_by_hop().for_each(|name| _ = headers.remove(name));
}

/// Removes the headers of an origin's response that must not reach a client.
pub fn clean_response(headers: &mut HeaderMap) {
    let header_set = HeaderSet::of(headers);
    remove_hop_by_hop(headers, header_set);
    remove_forgeries(headers, header_set);
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let options = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !NEVER_STRIPPED.contains(name))
        .collect()
}

/// Whether a comma-separated list has `item`, in any case.
fn list_has(value: &HeaderValue, item: &str) -> bool {
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .any(|it| it.trim_ascii().eq_ignore_ascii_case(item.as_bytes()))
}

/// Joins cookies that HTTP/2 may carry in several headers; HTTP/1.1 has one (RFC 9113 §8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let all: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Whether the client accepts trailers (RFC 9110 §10.1.4).
pub fn takes_trailers(headers: &HeaderMap) -> bool {
    headers.get_all(TE).iter().any(|value| list_has(value, "trailers"))
}

/// Removes headers from an origin's response that only the proxy may send, so that a denial cannot
/// be forged. `header_set` is that of `headers`.
pub fn remove_forgeries(headers: &mut HeaderMap, header_set: HeaderSet) {
    if header_set.has(HeaderSet::PROXY_STATUS) {
        let is_others = |value: &&HeaderValue| !names_us(value.as_bytes());
        let others: Vec<_> =
            headers.get_all(PROXY_STATUS).iter().filter(is_others).cloned().collect();
        headers.remove(&PROXY_STATUS);
        others.into_iter().for_each(|value| _ = headers.append(PROXY_STATUS, value));
    }
    if header_set.has(HeaderSet::OURS) {
        let ours: Vec<_> = headers.keys().filter(|name| is_ours(name.as_str())).cloned().collect();
        ours.iter().for_each(|name| _ = headers.remove(name));
    }
}

/// Whether a value of `Proxy-Status` has the proxy among its members, which are tokens or strings
/// with parameters (RFC 9209 §2). A value that cannot be parsed may have it for a lenient reader;
/// strict readers ignore the value (RFC 9651 §4.2).
fn names_us(value: &[u8]) -> bool {
    let is_ours = |item: &Item| {
        let name = match &item.bare_item {
            BareItem::Token(token) => token.as_str(),
            BareItem::String(text) => text.as_str(),
            BareItem::DisplayString(text) => text,
            _ => return false,
        };
        name.trim().eq_ignore_ascii_case(OUR_NAME)
    };
    let is_of_us = |member: &ListEntry| match member {
        ListEntry::Item(item) => is_ours(item),
        ListEntry::InnerList(list) => list.items.iter().any(is_ours),
    };
    Parser::new(value).parse::<List>().map_or(true, |list| list.iter().any(is_of_us))
}

// Which headers a message has, of those that the proxy treats in a special way. Most messages are
// checked for all of them and have few: one pass over the names costs less than a lookup of each.

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

/// The proxy's entry in `Via`: a pseudonym, and a comment by which this process recognises its own
/// messages.
#[derive(Clone, Debug)]
pub struct Via {
    /// For messages received by HTTP/1.0, HTTP/1.1 and HTTP/2. They are made once, not per message.
    entries: [HeaderValue; 3],
    mark: String,
}

impl Via {
    /// An entry with `mark`, of letters and digits.
    pub fn new(mark: &str) -> Self {
        let mark = format!("({mark})");
        let entries = ["1.0", "1.1", "2"].map(|version| {
            HeaderValue::try_from(format!("{version} courtesy {mark}"))
                .expect("it is visible ASCII")
        });
        Self { entries, mark }
    }

    /// Appends the entry, with the protocol that the message was received by.
    pub fn append(&self, headers: &mut HeaderMap, version: Version) {
        let [http10, http11, http2] = &self.entries;
        let entry = match version {
            Version::HTTP_10 => http10,
            Version::HTTP_2 => http2,
            _ => http11,
        };
        headers.append(VIA, entry.clone());
    }

    /// Whether the request has passed through this process before.
    pub fn is_looping(&self, headers: &HeaderMap) -> bool {
        let has_mark = |value: &HeaderValue| {
            memchr::memmem::find(value.as_bytes(), self.mark.as_bytes()).is_some()
        };
        headers.get_all(VIA).iter().any(has_mark)
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{COOKIE, EXPECT, VIA};

    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(
                HeaderName::try_from(*name).unwrap(),
                HeaderValue::try_from(*value).unwrap(),
            );
        }
        map
    }

    #[test]
    fn c3_hop_by_hop_headers_go_and_framing_stays() {
        let mut map = fields(&[
            ("connection", "close, X-One ,"),
            ("connection", "x-two,host, content-length"),
            ("connection", "User-Agent, via,expect,MAX-FORWARDS"),
            ("x-one", "1"),
            ("x-one", "2"),
            ("x-two", "3"),
            ("x-three", "4"),
            ("host", "a"),
            ("content-length", "0"),
            ("user-agent", "b"),
            ("via", "1.1 c"),
            ("expect", "100-continue"),
            ("max-forwards", "1"),
            ("proxy-authorization", "Basic x"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
        ]);
        let names = HeaderSet::of(&map);
        remove_hop_by_hop(&mut map, names);
        assert_eq!(
            map,
            fields(&[
                ("x-three", "4"),
                ("host", "a"),
                ("content-length", "0"),
                ("user-agent", "b"),
                ("via", "1.1 c"),
                ("expect", "100-continue"),
                ("max-forwards", "1"),
                ("trailer", "x-sum"),
            ])
        );
    }

    #[test]
    fn headers_of_the_proxy_are_removed_from_an_origins_response() {
        let mut map = fields(&[
            ("proxy-status", "edge; received-status=200"),
            ("proxy-status", "courtesy; error=http_request_denied"),
            ("proxy-status", "x, \"courtesy\";a=b"),
            ("courtesy-record", "01J"),
            ("courtesy_record", "01J"),
            ("x", "y"),
        ]);
        clean_response(&mut map);
        assert_eq!(map, fields(&[("proxy-status", "edge; received-status=200"), ("x", "y")]));
    }

    #[test]
    fn a_proxy_status_of_ours_is_found_in_every_spelling() {
        for ours in [
            "courtesy",
            "Courtesy;error=http_request_denied",
            "\"courtesy\"; error=x",
            "\"COURTESY\"",
            "\" courtesy \"",
            "edge;details=\"a, b; c\", courtesy",
            "a, b;x=1;y=\"\\\"\" ,\tcourtesy ; x",
            "(courtesy);x",
            "%\"courtesy\"",
            // No list for a strict reader.
            "\"court\\esy\"; error=http_request_denied",
            "\"courtesy",
            "edge, courtesy,",
            "edge; error = x",
            "'courtesy'",
            "court\u{e9}sy",
        ] {
            assert!(names_us(ours.as_bytes()), "{ours}");
        }
        for others in [
            "edge; received-status=200",
            "\"edge, courtesy\"",
            "edge;details=\"courtesy; error=x\"",
            "edge;details=\"a, courtesy, b\"",
            "edge;next-hop=courtesy, courtesy.example",
            "xcourtesy, courtesy/1, courtesy-2",
            "1, ?1, :Y291cnRlc3k=:",
            "",
        ] {
            assert!(!names_us(others.as_bytes()), "{others}");
        }
    }

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

    #[test]
    fn a_message_that_comes_back_to_this_process_is_a_loop() {
        let ours = Via::new("a1");
        let other = Via::new("b2");
        let mut map = HeaderMap::new();
        map.append(VIA, HeaderValue::from_static("1.0 edge"));
        other.append(&mut map, Version::HTTP_11);
        assert!(!ours.is_looping(&map));
        ours.append(&mut map, Version::HTTP_10);
        assert!(ours.is_looping(&map));
        assert_eq!(map.get_all(VIA).iter().next_back().unwrap(), "1.0 courtesy (a1)");
    }
}
