//! Protocols that a request may upgrade its connection to (RFC 9110 §7.8). No decisions are made on
//! what follows a 101, so only listed protocols are requested: HTTP, or a protocol that carries it,
//! would hide requests.

use std::fmt;
use std::str::FromStr;

use http::header::{CONNECTION, HeaderMap, HeaderValue, UPGRADE};

use super::char_class::{TOKEN, is};

/// Protocols that are HTTP, or TLS that may carry it, by prefixes of their names (RFC 9110 §16.7):
/// `HTTP/2.0`, `h2c`, `h2c-14`, `TLS/1.0`.
const CARRIERS: [&str; 6] = ["http", "h2", "h3", "tls", "ssl", "spdy"];

/// A protocol as `Upgrade` names it: a name, or a name and a version. Names are compared in any
/// case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(Box<str>);

impl Protocol {
    /// WebSocket (RFC 6455 §11.2).
    pub fn websocket() -> Self {
        Self("websocket".into())
    }

    fn is(&self, member: &[u8]) -> bool {
        self.0.as_bytes().eq_ignore_ascii_case(member)
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_token = |part: &str| !part.is_empty() && part.bytes().all(|byte| is(byte, TOKEN));
        let mut parts = text.split('/');
        if !parts.by_ref().take(2).all(is_token) || parts.next().is_some() {
            return Err(format!("\"{text}\" is no protocol name of Upgrade; write \"websocket\""));
        }
        let name = text.to_ascii_lowercase();
        match CARRIERS.iter().find(|carrier| name.starts_with(*carrier)) {
            Some(_) => {
                Err(format!("\"{text}\" carries HTTP requests, which would not be decided on"))
            }
            None => Ok(Self(name.into())),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The protocols of `allowed` that a request names in `Upgrade`, if `Connection` has the option,
/// too (RFC 9110 §7.8). Other protocols are not forwarded.
pub fn wanted(headers: &HeaderMap, allowed: &[Protocol]) -> Option<HeaderValue> {
    if !members(headers, CONNECTION).any(|option| option.eq_ignore_ascii_case(b"upgrade")) {
        return None;
    }
    let is_allowed = |member: &&[u8]| allowed.iter().any(|protocol| protocol.is(member));
    let wanted: Vec<&[u8]> = members(headers, UPGRADE).filter(is_allowed).collect();
    HeaderValue::from_bytes(&wanted.join(&b", "[..])).ok().filter(|wanted| !wanted.is_empty())
}

/// Whether a 101 with these `headers` switches to one or more of the protocols in `asked`, and to
/// no other.
pub fn switches_to_one_of(asked: &HeaderValue, headers: &HeaderMap) -> bool {
    let is_asked_for =
        |protocol: &[u8]| list(asked.as_bytes()).any(|asked| asked.eq_ignore_ascii_case(protocol));
    let mut switched = members(headers, UPGRADE).peekable();
    switched.peek().is_some() && switched.all(is_asked_for)
}

/// The members of a list header, of all its lines (RFC 9110 §5.6.1).
fn members(headers: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &[u8]> {
    headers.get_all(name).into_iter().flat_map(|value| list(value.as_bytes()))
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: (&str, &str) = ("connection", "keep-alive, Upgrade");

    fn fields(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name = http::HeaderName::try_from(*name).unwrap();
            map.append(name, HeaderValue::try_from(*value).unwrap());
        }
        map
    }

    #[test]
    fn c4_only_listed_protocols_are_requested() {
        let allowed = [Protocol::websocket(), "foo/1".parse().unwrap()];
        for (upgrade, expected) in [
            ("websocket", Some("websocket")),
            ("WebSocket", Some("WebSocket")),
            ("Foo/1", Some("Foo/1")),
            ("h2c, websocket", Some("websocket")),
            (" websocket\t,,foo/1,", Some("websocket, foo/1")),
            ("foo", None),
            ("foo/1.0", None),
            ("websocket/13", None),
            ("websocket foo", None),
            ("\"websocket\"", None),
            ("\"h2c\"", None),
            ("TLS/1.0", None),
            ("h2c-14", None),
            ("HTTP/2.0", None),
            ("", None),
        ] {
            let wanted = wanted(&fields(&[BOTH, ("upgrade", upgrade)]), &allowed);
            assert_eq!(wanted, expected.map(HeaderValue::from_static), "{upgrade}");
        }
        let lines = fields(&[BOTH, ("upgrade", "TLS/1.0"), ("upgrade", "websocket")]);
        assert_eq!(wanted(&lines, &allowed).unwrap(), "websocket");
        assert_eq!(wanted(&lines, &[]), None);
        assert_eq!(wanted(&fields(&[("upgrade", "websocket")]), &allowed), None, "it is not asked");
    }

    #[test]
    fn d5_a_switch_is_to_a_requested_protocol() {
        let asked = HeaderValue::from_static("websocket, foo/1");
        for (switched, expected) in [
            (&["WebSocket"][..], true),
            (&["foo/1, websocket"], true),
            (&["foo/1", "websocket"], true),
            (&["foo/2"], false),
            (&["websocket", "h2c"], false),
            (&["websocket, TLS/1.2"], false),
            (&[","], false),
            (&[], false),
        ] {
            let switched: Vec<_> = switched.iter().map(|value| ("upgrade", *value)).collect();
            assert_eq!(switches_to_one_of(&asked, &fields(&switched)), expected, "{switched:?}");
        }
    }

    #[test]
    fn protocols_that_carry_http_cannot_be_listed() {
        for protocol in ["websocket", "foo", "IRC/6.9", "tcp"] {
            assert_eq!(
                protocol.parse::<Protocol>().unwrap().to_string(),
                protocol.to_ascii_lowercase()
            );
        }
        for carrier in ["h2c", "H2C-14", "HTTP/2.0", "https", "TLS/1.0", "tls", "h3", "SPDY/3"] {
            assert!(carrier.parse::<Protocol>().unwrap_err().contains("carries HTTP"), "{carrier}");
        }
        for none in ["", "/", "foo/", "/1", "a/b/c", "foo bar", "\"foo\"", "foo,bar"] {
            assert!(none.parse::<Protocol>().unwrap_err().contains("no protocol"), "{none}");
        }
    }
}
