//! A second, strict reading of what says where a request is for (RFC 9112 §3, RFC 3986 §3.2), from the
//! raw bytes. Where the proxy takes a request, this must read the same, byte for byte.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An absolute URL in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Absolute {
    pub scheme: String,
    pub host: String,
    pub port: Option<u16>,
    /// Path and query, `/` supplied where there is no path.
    pub path: Vec<u8>,
}

/// Method and target of a request line: three parts with one blank between each, HTTP/1.0 or 1.1.
pub fn request_line(head: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut rest = head;
    // RFC 9112 §2.2: empty lines before it are passed over.
    while let Some(after) = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
        rest = after;
    }
    let line = rest.split(|byte| *byte == b'\n').next()?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let parts: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    match parts[..] {
        [method, target, b"HTTP/1.1" | b"HTTP/1.0"] if is_token(method) && is_printable(target) => {
            Some((method, target))
        }
        _ => None,
    }
}

/// A fragment is no part of what is asked for, and is cut off.
pub fn absolute(target: &[u8]) -> Option<Absolute> {
    let target = target.split(|byte| *byte == b'#').next()?;
    let colon = target.iter().position(|byte| *byte == b':')?;
    let rest = target[colon..].strip_prefix(b"://")?;
    let scheme = std::str::from_utf8(&target[..colon]).ok()?.to_ascii_lowercase();
    let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = self::authority(authority)?;
    let path = if path.starts_with(b"/") { path.to_vec() } else { [b"/", path].concat() };
    Some(Absolute { scheme, host, port, path })
}

/// Host, normalised, and port, if there is one.
pub fn authority(authority: &[u8]) -> Option<(String, Option<u16>)> {
    let text = std::str::from_utf8(authority).ok()?;
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (format!("[{address}]"), after)
        }
        None => {
            let (host, after) = text.split_at(text.find(':').unwrap_or(text.len()));
            (self::host(host)?, after)
        }
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        Some("") => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port > 0)?)
        }
        Some(_) => return None,
    };
    Some((host, port))
}

/// Labels of letters, digits, `-` and `_`, in lower case and without the root's dot. A last label that
/// is a number makes it an address, and that is four decimal numbers.
fn host(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        let belongs =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(belongs)
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    let last = name.rsplit('.').next()?;
    let hex = last
        .strip_prefix("0x")
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    if hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
        let address: Ipv4Addr = name.parse().ok()?;
        return Some(address.to_string());
    }
    Some(name)
}

pub fn is_token(bytes: &[u8]) -> bool {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(belongs)
}

/// Bytes beyond ASCII are no URL's, but clients write them; they are passed on as they are.
fn is_printable(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| *byte > 0x20 && *byte != 0x7f)
}
