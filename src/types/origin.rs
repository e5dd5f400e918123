//! The origin of a URL: scheme, host and port, normalised. It is the key of all stored data and the
//! address of every request, so two spellings of one origin compare equal, and an ambiguous
//! spelling, which a resolver or another parser might read differently, is refused.

pub mod host;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use percent_encoding::{AsciiSet, percent_encode};

use super::HOST_BYTES_MAX;
use host::parse_host;
pub use host::{Host, HostPattern, UrlError};

/// A scheme with an authority and a robots.txt (RFC 9309 §2.3 names FTP beside HTTP). FTP only
/// serves to report what is out of scope; the proxy supports `http` and `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    Http,
    Https,
    Ftp,
}

impl Scheme {
    /// `http` or `https`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Ftp => "ftp",
        }
    }

    /// The default port (RFC 9110 §4.2.1, §4.2.2).
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
            Self::Ftp => 21,
        }
    }

    /// Schemes are case-insensitive (RFC 3986 §3.1).
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        [Self::Http, Self::Https, Self::Ftp]
            .into_iter()
            .find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
            .ok_or_else(|| UrlError::Scheme(text.chars().take(32).collect()))
    }
}

/// Scheme, host and effective port (RFC 9110 §4.3.1; RFC 9309 §2.3: one robots.txt for each).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: Host,
    port: u16,
}

impl Origin {
    /// The origin of these parts.
    pub const fn new(scheme: Scheme, host: Host, port: u16) -> Self {
        Self { scheme, host, port }
    }

    /// From a scheme and the authority component of a URI: `host`, `host:port`, `[v6]:port`.
    pub fn from_authority(scheme: Scheme, authority: &str) -> Result<Self, UrlError> {
        // RFC 9110 §4.2.4: userinfo in an http(s) reference from an untrusted source is an error.
        if authority.as_bytes().contains(&b'@') {
            return Err(UrlError::Userinfo);
        }
        let (host, port) = split_port(authority)?;
        let port = match port {
            None | Some("") => scheme.default_port(),
            Some(digits) => parse_port(digits)?,
        };
        Ok(Self { scheme, host: parse_host(host)?, port })
    }

    /// Its scheme.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its host.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Its port, also where it is the default one.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Host` for this origin: without the scheme's default port (RFC 9110 §7.2).
    pub fn authority(&self) -> String {
        let mut authority = String::new();
        self.write_authority(&mut authority).expect("a text takes what is written to it");
        authority
    }

    /// Whether `text` equals [`Self::authority`], without allocating it. It usually does.
    pub fn has_authority(&self, text: &[u8]) -> bool {
        // Every request has one, so the common cases avoid the formatting machinery: to format an
        // IPv4 address and its port takes 2,000 instructions.
        let rest = match &self.host {
            Host::Name(name) => text.strip_prefix(name.as_bytes()),
            Host::V4(address) => {
                let (host, rest) = text.split_at(memchr::memchr(b':', text).unwrap_or(text.len()));
                // An IPv4 address has one spelling.
                let is_same = std::str::from_utf8(host).is_ok_and(|it| it.parse() == Ok(*address));
                is_same.then_some(rest)
            }
            Host::V6(_) => return text == self.authority().as_bytes(),
        };
        rest.is_some_and(|rest| match rest.strip_prefix(b":") {
            Some(digits) => self.port != self.scheme.default_port() && is_number(digits, self.port),
            None => rest.is_empty() && self.port == self.scheme.default_port(),
        })
    }

    fn write_authority(&self, to: &mut impl Write) -> fmt::Result {
        match &self.host {
            Host::Name(name) => to.write_str(name)?,
            address => write!(to, "{address}")?,
        }
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(to, ":{}", self.port) }
    }

    /// The same host under the other scheme, where both are on their default ports: one server
    /// stands behind them, as a rule.
    pub fn other_scheme(&self) -> Option<Self> {
        let scheme = match (self.scheme, self.port) {
            (Scheme::Http, 80) => Scheme::Https,
            (Scheme::Https, 443) => Scheme::Http,
            _ => return None,
        };
        Some(Self { scheme, host: self.host.clone(), port: scheme.default_port() })
    }

    /// The origin whose lane ([`crate::pace`]) this one's requests are in: a host has one for both
    /// schemes on their default ports, that of `https`; other ports have their own.
    pub fn lane(&self) -> Cow<'_, Self> {
        if self.scheme == Scheme::Http
            && let Some(https) = self.other_scheme()
        {
            return Cow::Owned(https);
        }
        Cow::Borrowed(self)
    }

    /// The URL of this origin's robots.txt (RFC 9309 §2.3).
    pub fn robots_url(&self) -> String {
        format!("{self}/robots.txt")
    }
}

/// Without a trailing slash: `https://example.com`, `http://[2001:db8::1]:8080`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme.as_str())?;
        f.write_str("://")?;
        self.write_authority(f)
    }
}

/// Whether `digits` are the decimal digits of `number`.
fn is_number(digits: &[u8], number: u16) -> bool {
    let mut value = 0;
    for digit in digits {
        match digit {
            b'0' if value == 0 => return false,
            b'0'..=b'9' if value <= u32::from(u16::MAX) => {
                value = 10 * value + u32::from(digit - b'0')
            }
            _ => return false,
        }
    }
    value == u32::from(number)
}

/// Splits an absolute URL into its origin and the rest, path and query with the fragment removed.
/// The rest is returned as it was written (RFC 9110 §7.7); an empty path becomes `/`.
pub fn split_url(url: &[u8]) -> Result<(Origin, Cow<'_, [u8]>), UrlError> {
    let scheme_end = memchr::memmem::find(url, b"://").ok_or(UrlError::NotAbsolute)?;
    let scheme = Scheme::parse(&String::from_utf8_lossy(&url[..scheme_end]))?;
    let rest = &url[scheme_end + 3..];
    let rest = &rest[..memchr::memchr(b'#', rest).unwrap_or(rest.len())];
    let authority_end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(authority_end);
    let authority = std::str::from_utf8(authority)
        .map_err(|_| UrlError::HostName(String::from_utf8_lossy(authority).into_owned()))?;
    let origin = Origin::from_authority(scheme, authority)?;
    let path = if path.starts_with(b"/") {
        Cow::Borrowed(path)
    } else {
        Cow::Owned([b"/", path].concat())
    };
    Ok((origin, path))
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or_else(|| UrlError::BadAddress(authority.into()))?;
        let (host, after) = authority.split_at(end + 1);
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(UrlError::BadAddress(authority.into())),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

/// Digits only: a sign, a blank, an overflow and port 0 are refused.
fn parse_port(digits: &str) -> Result<u16, UrlError> {
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse::<u16>() {
        Ok(port) if all_digits && port != 0 => Ok(port),
        _ => Err(UrlError::Port(digits.into())),
    }
}

/// Parsed origins that a worker keeps, by the text of the request.
const RECENT_ORIGINS: usize = 1024;

/// Bytes of those words: a host with a dot at its end, a colon and a port.
const RECENT_AUTHORITY_BYTES_MAX: usize = HOST_BYTES_MAX + 7;

/// Parses authorities, with a direct-mapped cache of recent ones.
#[derive(Debug)]
pub struct Recent {
    places: Box<[Option<Read>]>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Read {
    scheme: Scheme,
    authority: Box<str>,
    origin: Origin,
}

impl Default for Recent {
    fn default() -> Self {
        Self { places: (0..RECENT_ORIGINS).map(|_| None).collect(), hasher: RandomState::default() }
    }
}

impl Recent {
    /// [`Origin::from_authority`].
    pub fn origin(&mut self, scheme: Scheme, authority: &str) -> Result<Origin, UrlError> {
        // A hash has more than enough bits for an index.
        let place = self.hasher.hash_one(authority) as usize % self.places.len();
        let place = &mut self.places[place];
        if let Some(read) = place
            && read.scheme == scheme
            && *read.authority == *authority
        {
            return Ok(read.origin.clone());
        }
        let origin = Origin::from_authority(scheme, authority)?;
        // A port may have any number of leading zeros.
        if authority.len() <= RECENT_AUTHORITY_BYTES_MAX {
            *place = Some(Read { scheme, authority: authority.into(), origin: origin.clone() });
        }
        Ok(origin)
    }
}

// Percent-encodes bytes that clients send raw in a path or a query, although no URL may contain
// them.

/// The ASCII characters to encode in a query.
const QUERY: &AsciiSet = &AsciiSet::EMPTY.add(b'"').add(b'<').add(b'>');

/// The same for a path. A backtick in a query is left as it is.
const PATH: &AsciiSet = &QUERY.add(b'`');

/// `path_and_query` with bytes from 0x80, `"`, `<` and `>`, and in the path `` ` ``,
/// percent-encoded (RFC 3986 §2.1): by RFC 9309 §2.2.2 it is the same path. Everything else stays:
/// existing triplets, `%` without two digits, and blanks and controls, which no request can
/// contain.
pub fn percent_encoded(path_and_query: &[u8]) -> Cow<'_, [u8]> {
    let mark = memchr::memchr(b'?', path_and_query).unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(mark);
    let path: Cow<'_, str> = percent_encode(path, PATH).into();
    let query: Cow<'_, str> = percent_encode(query, QUERY).into();
    // Encoding always lengthens.
    if path.len() + query.len() == path_and_query.len() {
        Cow::Borrowed(path_and_query)
    } else {
        Cow::Owned([path, query].concat().into_bytes())
    }
}

#[cfg(test)]
mod recent_tests {
    use super::*;

    #[test]
    fn what_is_known_is_short() {
        let mut recent = Recent::default();
        let authority = format!("a.example:{}80", "0".repeat(10_000));
        assert_eq!(
            recent.origin(Scheme::Http, &authority),
            Origin::from_authority(Scheme::Http, "a.example")
        );
        assert!(recent.places.iter().all(Option::is_none));
    }

    #[test]
    fn what_was_read_before_is_the_same_again() {
        let mut recent = Recent::default();
        let hosts = (0..2 * RECENT_ORIGINS).map(|number| format!("{number}.Example:80"));
        let odd = [
            "a.example",
            "a.example:443",
            "A.example.",
            "127.0.0.1",
            "127.1",
            "[::1]:80",
            "u@a",
            "a:0",
            "",
        ];
        let all: Vec<_> = odd.map(String::from).into_iter().chain(hosts).collect();
        for authority in all.iter().chain(&all).chain(all.iter().rev()) {
            for scheme in [Scheme::Http, Scheme::Https] {
                let expected = Origin::from_authority(scheme, authority);
                assert_eq!(recent.origin(scheme, authority), expected, "{authority}");
                assert_eq!(recent.origin(scheme, authority), expected, "{authority} once more");
            }
        }
    }
}

#[cfg(test)]
mod percent_tests {
    use percent_encoding::percent_decode;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_url_has_as_itself_is_encoded_once() {
        for (given, expected) in [
            (&b"/a?b=c"[..], &b"/a?b=c"[..]),
            (b"/caf\xc3\xa9", b"/caf%C3%A9"),
            (b"/\xff\x80?\xfe", b"/%FF%80?%FE"),
            (b"/\"<>`?\"<>`?", b"/%22%3C%3E%60?%22%3C%3E`?"),
            (b"/%C3%A9\xc3\xa9%zz%", b"/%C3%A9%C3%A9%zz%"),
            (b"/%\"41", b"/%%2241"),
            (b"/{}|\\^[]~'", b"/{}|\\^[]~'"),
            (b"/a b\t\x7f\0#", b"/a b\t\x7f\0#"),
            (b"\x80", b"%80"),
            (b"", b""),
        ] {
            assert_eq!(percent_encoded(given), expected, "{}", given.escape_ascii());
        }
    }

    proptest! {
        /// A server that decodes the result has exactly the given bytes.
        #[test]
        fn encoding_is_undone_by_decoding_and_done_once(given in prop::collection::vec(any::<u8>(), 0..40)) {
            let given: Vec<u8> = given.into_iter().filter(|byte| *byte != b'%').collect();
            let encoded = percent_encoded(&given);
            prop_assert!(encoded.is_ascii());
            prop_assert_eq!(percent_decode(&encoded).collect::<Vec<u8>>(), given.clone());
            prop_assert_eq!(percent_encoded(&encoded), encoded.clone());
            for sign in b"/?#&=: \r\n" {
                let count = |bytes: &[u8]| bytes.iter().filter(|byte| *byte == sign).count();
                prop_assert_eq!(count(&encoded), count(&given));
            }
        }
    }
}
