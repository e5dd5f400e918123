//! A host: its normal form, and the spellings that are refused.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::url_error::UrlError;
use crate::types::limits::HOST_BYTES_MAX;

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
