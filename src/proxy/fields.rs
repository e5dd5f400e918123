//! What an intermediary does to the fields of a message that passes through (RFC 9110 §7.6).

use http::header::{CONNECTION, COOKIE, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE, VIA};
use http::{Version, header};

pub const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// Hop-by-hop even when `Connection` does not name them (RFC 9110 §7.6.1), and the credentials
/// and challenges of the hop (§11.7).
static HOP_BY_HOP: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    header::TRANSFER_ENCODING,
    UPGRADE,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("http2-settings"),
];

/// Where a name stands among those. As text: to compare with ten names costs more than with ten lengths,
/// and each field is asked.
fn hop_by_hop(name: &HeaderName) -> Option<usize> {
    Some(match name.as_str() {
        "connection" => 0,
        "keep-alive" => 1,
        "proxy-connection" => 2,
        "te" => 3,
        "transfer-encoding" => 4,
        "upgrade" => 5,
        "proxy-authorization" => 6,
        "proxy-authenticate" => 7,
        "proxy-authentication-info" => 8,
        "http2-settings" => 9,
        _ => return None,
    })
}

/// `Connection` cannot be used to strip what frames or routes the message.
const NEVER_STRIPPED: [HeaderName; 2] = [header::HOST, header::CONTENT_LENGTH];

/// Removes what is meant for one hop only: the fields that `Connection` names, itself, and those
/// that are hop-by-hop by definition.
pub fn remove_hop_by_hop(fields: &mut HeaderMap) {
    // One pass for all of them, and none is cloned: `Connection` is in most messages, the others in few. And
    // what it says in most names a field that goes by definition.
    let mut is_there = [false; HOP_BY_HOP.len()];
    fields.keys().filter_map(hop_by_hop).for_each(|place| is_there[place] = true);
    if is_there[0] && !fields.get_all(CONNECTION).iter().all(|options| options == "keep-alive") {
        named_by_connection(fields).iter().for_each(|name| _ = fields.remove(name));
    }
    for (name, _) in HOP_BY_HOP.iter().zip(is_there).filter(|(_, is_there)| *is_there) {
        fields.remove(name);
    }
}

fn named_by_connection(fields: &HeaderMap) -> Vec<HeaderName> {
    let options =
        fields.get_all(CONNECTION).iter().flat_map(|value| value.as_bytes().split(|octet| *octet == b','));
    options
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .filter(|name| !NEVER_STRIPPED.contains(name))
        .collect()
}

/// Whether a `Connection` field names `option` (RFC 9110 §7.6.1: a list, in any case).
pub fn connection_names(fields: &HeaderMap, option: &str) -> bool {
    fields.get_all(CONNECTION).iter().any(|value| list_has(value, option))
}

/// Whether a comma-separated list field has `item`, in any case.
fn list_has(value: &HeaderValue, item: &str) -> bool {
    value
        .as_bytes()
        .split(|octet| *octet == b',')
        .any(|it| it.trim_ascii().eq_ignore_ascii_case(item.as_bytes()))
}

/// The protocols a request asks to switch to, when it really asks (both fields, RFC 9110 §7.8).
/// `h2c` is never passed on: it would turn the connection into one that nobody judges.
pub fn wanted_upgrade(fields: &HeaderMap) -> Option<HeaderValue> {
    let protocol = fields.get(UPGRADE).filter(|_| connection_names(fields, "upgrade"))?;
    (!list_has(protocol, "h2c")).then(|| protocol.clone())
}

/// Whether the protocols in a 101 are among those `asked` for.
pub fn switches_to_one_of(asked: &HeaderValue, response: &HeaderMap) -> bool {
    let mut switched =
        response.get_all(UPGRADE).iter().flat_map(|value| value.as_bytes().split(|it| *it == b','));
    let is_asked_for = |protocol: &[u8]| {
        std::str::from_utf8(protocol).is_ok_and(|protocol| list_has(asked, protocol.trim()))
    };
    response.contains_key(UPGRADE) && switched.all(is_asked_for)
}

/// HTTP/2 may carry one cookie a field; before HTTP/1.1 they are joined (RFC 9113 §8.2.3).
pub fn join_cookies(fields: &mut HeaderMap) {
    let mut cookies = fields.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let all: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
        fields.insert(COOKIE, joined);
    }
}

/// Whether the client can take trailers (RFC 9110 §10.1.4).
pub fn takes_trailers(fields: &HeaderMap) -> bool {
    fields.get_all(TE).iter().any(|value| list_has(value, "trailers"))
}

/// Our name in `Via` (RFC 9110 §7.6.3): a pseudonym, and a comment by which this very process
/// recognises its own messages.
#[derive(Clone, Debug)]
pub struct Via {
    /// For messages received in HTTP/1.0, HTTP/1.1 and HTTP/2: made once, they cost a message nothing.
    entries: Option<[HeaderValue; 3]>,
    mark: String,
}

impl Via {
    /// With `None` requests and responses pass without a `Via` of ours. A pseudonym is a token.
    pub fn new(pseudonym: Option<&str>, mark: &str) -> Self {
        let mark = format!("({mark})");
        let entry = |pseudonym: &str, version| {
            HeaderValue::try_from(format!("{version} {pseudonym} {mark}")).expect("a token is visible ASCII")
        };
        let entries = pseudonym.map(|pseudonym| ["1.0", "1.1", "2"].map(|version| entry(pseudonym, version)));
        Self { entries, mark }
    }

    /// Appends our entry; the protocol is the one the message was received by.
    pub fn append(&self, fields: &mut HeaderMap, received: Version) {
        let Some([http10, http11, http2]) = &self.entries else { return };
        let entry = match received {
            Version::HTTP_10 => http10,
            Version::HTTP_2 => http2,
            _ => http11,
        };
        fields.append(VIA, entry.clone());
    }

    /// Whether the request has passed through this very process before.
    pub fn is_looping(&self, fields: &HeaderMap) -> bool {
        let has_mark =
            |value: &HeaderValue| memchr::memmem::find(value.as_bytes(), self.mark.as_bytes()).is_some();
        fields.get_all(VIA).iter().any(has_mark)
    }
}

/// Removes from an origin's response what only we may say, so that a denial cannot be forged.
pub fn remove_forgeries(fields: &mut HeaderMap) {
    let (mut ours, mut has_status) = (Vec::new(), false);
    for name in fields.keys() {
        match name.as_str() {
            "proxy-status" => has_status = true,
            text if text.starts_with("courtesy-") => ours.push(name.clone()),
            _ => {}
        }
    }
    if has_status {
        let others: Vec<HeaderValue> = fields
            .get_all(PROXY_STATUS)
            .iter()
            .filter(|value| !names_us(value.as_bytes()))
            .cloned()
            .collect();
        fields.remove(&PROXY_STATUS);
        for value in others {
            fields.append(PROXY_STATUS, value);
        }
    }
    for name in ours {
        fields.remove(&name);
    }
}

/// A list member of `Proxy-Status` is a token or string before its parameters (RFC 9209 §2).
fn names_us(value: &[u8]) -> bool {
    value.split(|octet| *octet == b',').any(|member| {
        let name = member.split(|octet| *octet == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"courtesy") || name.trim_ascii() == b"\"courtesy\""
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap());
        }
        map
    }

    #[test]
    fn c3_hop_by_hop_fields_go_and_framing_stays() {
        let mut map = fields(&[
            ("connection", "close, X-One ,"),
            ("connection", "x-two,host, content-length"),
            ("x-one", "1"),
            ("x-one", "2"),
            ("x-two", "3"),
            ("x-three", "4"),
            ("host", "a"),
            ("content-length", "0"),
            ("proxy-authorization", "Basic x"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
        ]);
        remove_hop_by_hop(&mut map);
        assert_eq!(
            map,
            fields(&[("x-three", "4"), ("host", "a"), ("content-length", "0"), ("trailer", "x-sum")])
        );
    }

    #[test]
    fn every_name_of_one_hop_is_known_by_its_place() {
        for (place, name) in HOP_BY_HOP.iter().enumerate() {
            assert_eq!(hop_by_hop(name), Some(place), "{name}");
        }
        assert_eq!(HOP_BY_HOP[0], CONNECTION);
    }

    #[test]
    fn an_upgrade_needs_both_fields_and_is_never_h2c() {
        let asks = |pairs: &[(&str, &str)]| wanted_upgrade(&fields(pairs)).is_some();
        assert!(asks(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]));
        assert!(!asks(&[("upgrade", "websocket")]));
        assert!(!asks(&[("connection", "upgrade"), ("upgrade", "h2c")]));
    }

    #[test]
    fn our_own_words_are_removed_from_an_origins_mouth() {
        let mut map = fields(&[
            ("proxy-status", "edge; received-status=200"),
            ("proxy-status", "courtesy; error=http_request_denied"),
            ("proxy-status", "x, \"courtesy\";a=b"),
            ("courtesy-record", "01J"),
            ("x", "y"),
        ]);
        remove_forgeries(&mut map);
        assert_eq!(map, fields(&[("proxy-status", "edge; received-status=200"), ("x", "y")]));
    }

    #[test]
    fn a_message_that_comes_back_to_this_process_is_a_loop() {
        let ours = Via::new(Some("courtesy"), "a1");
        let other = Via::new(Some("courtesy"), "b2");
        let mut map = fields(&[("via", "1.0 edge")]);
        other.append(&mut map, Version::HTTP_11);
        assert!(!ours.is_looping(&map));
        ours.append(&mut map, Version::HTTP_10);
        assert!(ours.is_looping(&map));
        assert_eq!(map.get_all(VIA).iter().next_back().unwrap(), "1.0 courtesy (a1)");
    }
}
