//! Headers that an intermediary removes or rewrites in a message that it forwards (RFC 9110 §7.6).

use http::header;
use http::header::{CONNECTION, COOKIE, HeaderMap, HeaderName, HeaderValue, TE};

use sfv::{BareItem, Item, List, ListEntry, Parser};

use super::header_set::{HeaderSet, PROXY_STATUS, is_ours};

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

#[cfg(test)]
mod tests {
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
}
