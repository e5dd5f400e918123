//! The request line (RFC 9112 §3).

use std::borrow::Cow;

use super::encoded;
use super::fault::{quoted, target_too_long};
use crate::proxy::framing::foreign_protocol::ForeignProtocol;
use crate::proxy::limits::TARGET_BYTES_MAX;
use crate::proxy::outcome::rejection::Rejection;
use crate::proxy::request::char_class::{HOST, PATH, TOKEN, is};

pub(super) const NO_VALID_TARGET: &str = "has no valid target";

/// What hyper does not report of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine {
    /// The digit after `HTTP/1.`.
    pub minor: u8,
    pub is_connect: bool,
    /// `OPTIONS` of an absolute URL without path and query, which is one of `*` at the origin
    /// (RFC 9112 §3.2.4). hyper's URI type always has a path.
    pub is_pathless: bool,
    /// Whether the target has to be percent-encoded ([`encoded::encoded_head`]) before hyper gets it.
    pub is_unencoded: bool,
}

/// Reads a request line, without its line end. With `strict_target`, a target that would have to be
/// percent-encoded is refused.
pub fn request_line(line: &[u8], strict_target: bool) -> Result<RequestLine, Rejection> {
    if let Some(foreign) = ForeignProtocol::by(line) {
        return Err(Rejection::foreign(foreign));
    }
    let fault =
        |fault: &str| Rejection::bad_request(format!("the request line {} {fault}", quoted(line)));
    let mut parts = line.split(|byte| *byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(fault(
            "is not a method, a target and a version with one blank between each (RFC 9112 §3)",
        ));
    };
    if !is_token(method) {
        return Err(fault("does not begin with a method"));
    }
    if target.len() > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    let mut is_unencoded = false;
    if !is_plain_url(target) {
        let target = if strict_target { Cow::Borrowed(target) } else { encoded::target(target) };
        if target.len() > TARGET_BYTES_MAX {
            return Err(target_too_long());
        }
        if let Some(wrong) = target_fault(&target) {
            return Err(fault(wrong));
        }
        if http::Uri::try_from(&*target).is_err() {
            return Err(fault(NO_VALID_TARGET));
        }
        is_unencoded = matches!(target, Cow::Owned(_));
    }
    let Some(&[minor @ b'0'..=b'9']) = version.strip_prefix(b"HTTP/1.") else {
        return Err(fault("does not end in HTTP/1.1 or HTTP/1.0"));
    };
    let is_pathless = method == b"OPTIONS" && is_without_path(target);
    Ok(RequestLine { minor, is_connect: method == b"CONNECT", is_pathless, is_unencoded })
}

/// What is wrong with a target that a URI parser may overlook, in any version of HTTP.
pub fn target_fault(target: &[u8]) -> Option<&'static str> {
    if target.contains(&b'#') {
        return Some("has a fragment in its target, which is never sent (RFC 9110 §7.1)");
    }
    (!target.iter().all(u8::is_ascii_graphic)).then_some(NO_VALID_TARGET)
}

/// Whether the target is an absolute URL without a path or query. A path may contain "://", too.
fn is_without_path(target: &[u8]) -> bool {
    !target.starts_with(b"/")
        && memchr::memmem::find(target, b"://")
            .is_some_and(|at| memchr::memchr2(b'/', b'?', &target[at + 3..]).is_none())
}

/// Whether the target is a common URL, which is valid without parsing it: letters, digits and a few
/// signs. If not, a parser decides.
fn is_plain_url(target: &[u8]) -> bool {
    let Some(rest) = target.strip_prefix(b"http://") else { return false };
    let host_end = rest.iter().position(|byte| !is(*byte, HOST)).unwrap_or(rest.len());
    let (host, rest) = rest.split_at(host_end);
    let digits = rest.strip_prefix(b":").map_or(&b""[..], |port| {
        let end = port.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(port.len());
        &port[..end]
    });
    let path = if digits.is_empty() { rest } else { &rest[1 + digits.len()..] };
    !host.is_empty()
        && digits.len() <= 5
        && path.first() == Some(&b'/')
        && path.iter().all(|byte| is(*byte, PATH))
}

fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| is(*byte, TOKEN))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plain_url_is_valid_for_the_engine(
            target in "http://[-.a-zA-Z0-9]{0,12}(:[0-9]{0,6})?/?[-._/?&=%a-zA-Z0-9@:\"]{0,20}"
        ) {
            prop_assert!(!is_plain_url(target.as_bytes()) || http::Uri::try_from(&target).is_ok());
        }
    }

    #[test]
    fn common_urls_are_known_without_a_parser() {
        for (target, plain) in [
            ("http://a.example/", true),
            ("http://a.example:8080/b/c?d=%20&e=f", true),
            ("http://a.example", false),
            ("http:///a", false),
            ("http://a.example:/", false),
            ("http://a.example:123456/", false),
            ("http://u@a.example/", false),
            ("http://a.example/\"", false),
            ("/a", false),
        ] {
            assert_eq!(is_plain_url(target.as_bytes()), plain, "{target}");
        }
    }

    #[test]
    fn a9_an_options_without_a_path_is_known() {
        for (line, expected) in [
            ("OPTIONS http://a HTTP/1.1", true),
            ("OPTIONS http://a:80 HTTP/1.1", true),
            ("OPTIONS http://a/ HTTP/1.1", false),
            ("OPTIONS http://a?b HTTP/1.1", false),
            ("OPTIONS * HTTP/1.1", false),
            ("OPTIONS /http://a HTTP/1.1", false),
            ("GET http://a HTTP/1.1", false),
        ] {
            assert_eq!(
                request_line(line.as_bytes(), false).map(|it| it.is_pathless),
                Ok(expected),
                "{line}"
            );
        }
    }
}
