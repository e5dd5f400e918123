//! A host: its normal form, and the spellings that are refused.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::types::HOST_BYTES_MAX;

/// A host: a registered name as lower-case A-labels without the trailing dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(Arc<str>),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Reads the host of an authority, and refuses what parsers read in different ways.
pub(super) fn parse_host(text: &str) -> Result<Host, UrlError> {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse().map(Host::V6).map_err(|_| UrlError::BadAddress(text.into()));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.is_empty() {
        return Err(UrlError::EmptyHost);
    }
    let is_plain = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    let name = if is_plain(name) && !has_a_label(name) {
        name.to_ascii_lowercase()
    } else {
        to_a_labels(name)?
    };
    // The URL parser accepts signs such as "!" beside non-ASCII letters.
    let is_name = is_plain(&name) && name.len() <= HOST_BYTES_MAX;
    if !is_name || labels(&name).any(|label| label.is_empty() || label.len() > 63) {
        return Err(UrlError::HostName(name));
    }
    if ends_in_a_number(&name) {
        // Exactly four decimal parts: parsers disagree on "127.1", "0x7f.1", "2130706433" and
        // "0177.0.0.1", so none of them is forwarded.
        return name.parse().map(Host::V4).map_err(|_| UrlError::OddAddress(name));
    }
    Ok(Host::Name(name.into()))
}

fn has_a_label(name: &str) -> bool {
    labels(name).any(|label| label.get(..4).is_some_and(|head| head.eq_ignore_ascii_case(b"xn--")))
}

/// By bytes: labels are short, and each request has some.
fn labels(name: &str) -> impl Iterator<Item = &[u8]> {
    name.as_bytes().split(|byte| *byte == b'.')
}

/// An internationalised name equals its Punycode form; invalid names are refused. Percent signs are
/// refused first: the URL parser would decode them.
fn to_a_labels(name: &str) -> Result<String, UrlError> {
    if name.is_ascii() && !has_a_label(name) || name.contains('%') {
        return Err(UrlError::HostName(name.into()));
    }
    match url::Host::parse(name) {
        Ok(url::Host::Domain(domain)) => Ok(domain),
        // Full-width digits, for example, are mapped to an address, and may disguise it.
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => Err(UrlError::OddAddress(name.into())),
        Err(_) => Err(UrlError::HostName(name.into())),
    }
}

/// A numeric last label makes some parsers read the whole name as an address.
fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || last.bytes().all(|byte| byte.is_ascii_digit())
}

/// A host, or `*.example.com` for those below it, but not itself. Compared label by label in normal
/// form: lower case, A-labels, no trailing dot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: Host,
    below: bool,
}

impl HostPattern {
    /// `None` if the host is invalid, or a star stands for anything but whole labels before a name.
    pub fn new(text: &str) -> Option<Self> {
        let (host, below) = match text.strip_prefix("*.") {
            Some(parent) => (parse_host(parent).ok()?, true),
            None => (parse_host(text).ok()?, false),
        };
        let is_name = matches!(host, Host::Name(_));
        (is_name || !below).then_some(Self { host, below })
    }

    /// Whether `host` matches.
    pub fn matches(&self, host: &Host) -> bool {
        match (&self.host, host, self.below) {
            (Host::Name(parent), Host::Name(name), true) => {
                name.strip_suffix(&**parent).is_some_and(|labels| labels.ends_with('.'))
            }
            (own, host, false) => own == host,
            _ => false,
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below {
            f.write_str("*.")?;
        }
        self.host.fmt(f)
    }
}

// A case-insensitive pattern over a whole text: `*` matches any bytes, also none; everything else
// matches itself. For User-Agent patterns of the configuration, never for robots.txt.

/// Worst case: time in proportion to pattern times text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<str>);

impl Glob {
    /// A pattern in which `*` matches any characters.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.into())
    }

    /// The only text that it matches, in any case; none where it has a star.
    pub fn literal(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&self.0)
    }

    /// With what every text ends that it matches, in any case.
    pub fn ending(&self) -> &str {
        self.0.rsplit('*').next().unwrap_or_default()
    }

    /// Whether the whole of `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut seen) = (0, 0);
        // Where to resume if what follows the last star does not match: only the last star ever
        // needs to match more, so nothing is tried twice.
        let mut retry: Option<(usize, usize)> = None;
        while seen < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    retry = Some((at + 1, seen));
                    at += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&text[seen]) => {
                    at += 1;
                    seen += 1;
                }
                _ => match retry {
                    Some((after_star, taken)) => {
                        retry = Some((after_star, taken + 1));
                        (at, seen) = (after_star, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a URL of a supported origin. The message says what to change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("the URL is not absolute: it must begin with http:// or https://")]
    NotAbsolute,
    #[error("the scheme \"{0}\" is not supported: only http and https are")]
    Scheme(String),
    #[error("the URL has no host")]
    EmptyHost,
    #[error("the URL carries user information (\"user@\"), which is not allowed (RFC 9110 §4.2.4)")]
    Userinfo,
    #[error("the port \"{0}\" is not a number from 1 to 65535")]
    Port(String),
    #[error("the host \"{0}\" is not a valid host name")]
    HostName(String),
    #[error(
        "the host \"{0}\" is an address in an unusual notation: write IPv4 as four decimal numbers"
    )]
    OddAddress(String),
    #[error("the host \"{0}\" is not a valid IPv6 address in brackets, without a zone")]
    BadAddress(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_host_or_what_is_below_one() {
        for text in [
            "",
            "*",
            "*.",
            "a*b.example",
            "**.example",
            "*example.com",
            "a b",
            "*.10.0.0.1",
            "*.[::1]",
        ] {
            assert_eq!(HostPattern::new(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_are_compared_in_normal_form_label_by_label() {
        let matches = |pattern: &str, host: &str| {
            HostPattern::new(pattern).unwrap().matches(&parse_host(host).unwrap())
        };
        for (pattern, host) in [
            ("example.com", "EXAMPLE.com."),
            ("Example.com.", "example.com"),
            ("*.example.com", "a.b.example.com"),
            ("*.m\u{fc}ller.example", "www.xn--mller-kva.example"),
            ("[::1]", "[0::1]"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("*.example.com", "example.com"),
            ("*.example.com", "notexample.com"),
            ("*.example.com", "example.com.evil.example"),
            ("example.com", "www.example.com"),
            ("0.0.1", "10.0.0.1"),
        ] {
            assert!(
                HostPattern::new(pattern).is_none() || !matches(pattern, host),
                "{pattern} {host}"
            );
        }
    }

    #[test]
    fn the_whole_text_is_matched_in_any_case() {
        for (pattern, text, expected) in [
            ("wget/*", "Wget/1.21", true),
            ("wget", "Wget/1.21", false),
            ("*bot*", "Mozilla/5.0 (compatible; ExampleBot/2.1)", true),
            ("*bot", "ExampleBot/2.1", false),
            ("*a*b*c", "xxaxxbxxbxc", true),
            ("*a*b*c", "xxaxxbxxcxb", false),
            ("*", "", true),
            ("", "", true),
            ("", "x", false),
            ("a**b", "ab", true),
            ("*ab", "aab", true),
        ] {
            assert_eq!(
                Glob::new(pattern).matches(text.as_bytes()),
                expected,
                "{pattern} on {text}"
            );
        }
    }
}
