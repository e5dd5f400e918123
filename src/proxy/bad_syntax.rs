//! What to say to a client whose octets are no HTTP request. The engine tells only that they are
//! not; the reason is found by a second look at the octets.

use std::io;
use std::sync::Arc;

use http::StatusCode;

use super::control::Control;
use super::refusal::Refusal;
use super::respond::raw_refusal;
use crate::limits::DETAIL_OCTETS_MAX;

/// How to answer after the connection ended in `error`; `None` when there is nothing to be said.
pub fn answer(error: &hyper::Error, control: &Arc<Control>) -> Option<impl FnOnce(&[u8]) -> Vec<u8> + use<>> {
    let status = if is_late_head(error) {
        StatusCode::REQUEST_TIMEOUT
    } else if !control.swallowed() {
        return None;
    } else if error.is_parse_too_large() {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    } else {
        StatusCode::BAD_REQUEST
    };
    let engine = error.to_string();
    Some(move |octets: &[u8]| raw_refusal(&Refusal::bad_request_as(status, reason(status, octets, &engine))))
}

/// The head began, but did not come to its end in time.
fn is_late_head(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|source| {
        source.kind() == io::ErrorKind::TimedOut && source.to_string().starts_with("the request head")
    })
}

fn reason(status: StatusCode, octets: &[u8], engine: &str) -> String {
    match status {
        StatusCode::REQUEST_TIMEOUT => {
            "the request head did not come to its end in time (limits.header_timeout)".into()
        }
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "the request head is longer, or has more fields, than limits.max_header_bytes and \
             limits.max_headers allow"
                .into()
        }
        _ => malformed(octets).unwrap_or_else(|| format!("the request is not valid HTTP/1.1: {engine}")),
    }
}

/// The first line of a head that breaks a rule of RFC 9112, and which.
fn malformed(octets: &[u8]) -> Option<String> {
    if octets.starts_with(&[0x16, 0x03]) {
        return Some(
            "this is a TLS handshake, but the proxy is spoken to in plain HTTP: write http:// instead of \
             https:// for the proxy's own address (as in HTTPS_PROXY=http://127.0.0.1:3128)"
                .into(),
        );
    }
    let mut lines =
        octets.split(|octet| *octet == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let request_line = lines.find(|line| !line.is_empty())?;
    request_line_fault(request_line)
        .map(|fault| format!("the request line {} {fault}", quoted(request_line)))
        .or_else(|| lines.take_while(|line| !line.is_empty()).find_map(field_fault))
}

fn request_line_fault(line: &[u8]) -> Option<&'static str> {
    let parts: Vec<&[u8]> = line.split(|octet| *octet == b' ').collect();
    match parts[..] {
        [method, _, _] if !is_token(method) => Some("does not begin with a method"),
        [_, target, _] if target.is_empty() || has_control(target) => Some("has no valid target"),
        [_, target, _] if !target.is_ascii() || http::Uri::try_from(target).is_err() => {
            Some("has no valid target")
        }
        [_, _, b"HTTP/1.1" | b"HTTP/1.0"] => None,
        [_, _, _] => Some("does not end in HTTP/1.1 or HTTP/1.0"),
        _ => Some("is not a method, a target and a version with one blank between each (RFC 9112 §3)"),
    }
}

fn field_fault(line: &[u8]) -> Option<String> {
    let fault = if line.starts_with(b" ") || line.starts_with(b"\t") {
        "begins with a blank: folded lines are obsolete (RFC 9112 §5.2)"
    } else {
        let Some(colon) = line.iter().position(|octet| *octet == b':') else {
            return Some(format!("the line {} has no colon (RFC 9112 §5)", quoted(line)));
        };
        let (name, value) = line.split_at(colon);
        let value = value[1..].trim_ascii();
        if name.last().is_some_and(u8::is_ascii_whitespace) {
            "has a blank before the colon (RFC 9112 §5.1)"
        } else if !is_token(name) {
            "has a name that is no token (RFC 9110 §5.1)"
        } else if has_control(value) {
            "has a control character in its value (RFC 9110 §5.5)"
        } else if name.eq_ignore_ascii_case(b"content-length") && !value.iter().all(u8::is_ascii_digit) {
            "is not a number of digits only (RFC 9110 §8.6)"
        } else {
            return None;
        }
    };
    Some(format!("the field line {} {fault}", quoted(line)))
}

fn is_token(octets: &[u8]) -> bool {
    let special = b"!#$%&'*+-.^_`|~";
    !octets.is_empty() && octets.iter().all(|octet| octet.is_ascii_alphanumeric() || special.contains(octet))
}

fn has_control(octets: &[u8]) -> bool {
    octets.iter().any(|octet| octet.is_ascii_control() && *octet != b'\t')
}

fn quoted(line: &[u8]) -> String {
    let cut = &line[..line.len().min(DETAIL_OCTETS_MAX)];
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_line_and_the_rule() {
        for (head, expected) in [
            ("\x16\x03\x01\x02", "TLS handshake"),
            ("GET http://a/\r\n\r\n", "is not a method, a target and a version"),
            ("GET  http://a/ HTTP/1.1\r\n\r\n", "one blank between each"),
            ("G@T http://a/ HTTP/1.1\r\n\r\n", "does not begin with a method"),
            ("GET http://a/ HTTP/2.0\r\n\r\n", "does not end in HTTP/1.1"),
            ("GET http://a/\u{e9} HTTP/1.1\r\n\r\n", "has no valid target"),
            ("GET http://a/ HTTP/1.1\r\nHost : a\r\n\r\n", "blank before the colon"),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "folded"),
            ("GET http://a/ HTTP/1.1\r\nHost a\r\n\r\n", "has no colon"),
            ("GET http://a/ HTTP/1.1\r\nX: a\0b\r\n\r\n", "control character"),
            ("GET http://a/ HTTP/1.1\r\nX(: a\r\n\r\n", "no token"),
            ("GET http://a/ HTTP/1.1\r\nContent-Length: +5\r\n\r\n", "digits only"),
        ] {
            let reason = malformed(head.as_bytes()).unwrap_or_default();
            assert!(reason.contains(expected), "{head:?}: {reason}");
        }
        assert_eq!(malformed(b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), None);
    }
}
