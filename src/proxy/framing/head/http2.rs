//! Checks a request head that came by HTTP/2 by the same rules as an HTTP/1 head: the request may
//! be forwarded by HTTP/1.1. hyper checks for malformed messages (RFC 9113 §8); the rest is
//! here.

use std::borrow::Cow;
use std::mem;

use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri, request};

use super::line::{NO_VALID_TARGET, target_fault};
use super::{encoded, target_too_long, too_large};
use crate::proxy::limits::TARGET_BYTES_MAX;
use crate::proxy::outcome::rejection::Rejection;
use crate::types::origin::percent_encoded;

/// Refuses a head that would be refused in HTTP/1, or would mean something else there.
/// Percent-encodes the path if necessary, and then returns it as it came.
pub fn check(
    request: &mut request::Parts,
    headers_max: usize,
    strict_target: bool,
) -> Result<Option<Box<str>>, Rejection> {
    if request.headers.len() > headers_max {
        return Err(too_large());
    }
    let path_as_received = if strict_target { None } else { encode(&mut request.uri)? };
    if let Some(target) = request.uri.path_and_query() {
        let fault = target_fault(target.as_str().as_bytes());
        fault
            .map_or(Ok(()), |fault| Err(Rejection::bad_request(format!("the request {fault}"))))?;
    }
    check_fields(request).map(|()| path_as_received)
}

/// As [`encoded::encoded_head`]. Of the bytes that need encoding, hyper accepts UTF-8 and, in a path,
/// `"`.
fn encode(uri: &mut Uri) -> Result<Option<Box<str>>, Rejection> {
    let Some(path) = uri.path_and_query().map(PathAndQuery::as_str) else { return Ok(None) };
    let Cow::Owned(target) = percent_encoded(path.as_bytes()) else { return Ok(None) };
    if target.len() > TARGET_BYTES_MAX {
        return Err(target_too_long());
    }
    let path_as_received = encoded::path_as_received(path.as_bytes());
    let invalid = || Rejection::bad_request(format!("the request {NO_VALID_TARGET}"));
    let mut parts = mem::take(uri).into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| invalid())?);
    *uri = Uri::from_parts(parts).map_err(|_| invalid())?;
    Ok(Some(path_as_received))
}

fn check_fields(request: &request::Parts) -> Result<(), Rejection> {
    let fields = &request.headers;
    if fields.values().any(is_blank_at_an_end) {
        return Err(Rejection::bad_request(
            "the request has a field value with a blank at its beginning or end (RFC 9113 §8.2.1)",
        ));
    }
    match fields.get_all(CONTENT_LENGTH).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Rejection::bad_request(
            "the request has more than one Content-Length (RFC 9110 §8.6)",
        )),
    }
}

/// In HTTP/1 such a blank is not part of the value: the origin would see another value than the
/// proxy.
fn is_blank_at_an_end(value: &HeaderValue) -> bool {
    let ends = [value.as_bytes().first(), value.as_bytes().last()];
    ends.into_iter().flatten().any(|byte| matches!(byte, b' ' | b'\t'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Request};

    use super::*;

    fn read(
        path: &str,
        fields: &[(&str, &str)],
        strict_target: bool,
    ) -> Result<(String, Option<String>), u16> {
        let mut request = Request::builder().uri(format!("https://a.example{path}"));
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            request = request.header(HeaderName::try_from(*name).unwrap(), value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let path_as_received =
            check(&mut parts, 3, strict_target).map_err(|rejection| rejection.status().as_u16())?;
        Ok((parts.uri.to_string(), path_as_received.map(String::from)))
    }

    fn status(path: &str, fields: &[(&str, &str)]) -> Result<(), u16> {
        read(path, fields, true).map(drop)
    }

    #[test]
    fn h2_a_head_is_checked_by_the_rules_of_http_1() {
        assert_eq!(status("/a?b=%20", &[("a", "1"), ("a", ""), ("b", "1 2")]), Ok(()));
        assert_eq!(status("/", &[("a", "1"), ("a", "2"), ("b", "3"), ("c", "4")]), Err(431));
        for path in ["/\u{e9}", "/a?\u{e9}"] {
            assert_eq!(status(path, &[]), Err(400), "{path}");
        }
        for value in [" a", "a ", "\ta", "a\t", " "] {
            assert_eq!(status("/", &[("user-agent", value)]), Err(400), "{value:?}");
        }
        assert_eq!(status("/", &[("content-length", "1"), ("content-length", "1")]), Err(400));
    }

    #[test]
    fn h2_bytes_that_are_invalid_in_a_url_are_encoded() {
        for (path, expected, path_as_received) in [
            ("/caf\u{e9}?\u{e9}", "https://a.example/caf%C3%A9?%C3%A9", Some("/caf\u{e9}?\u{e9}")),
            ("/\"a\"", "https://a.example/%22a%22", Some("/\"a\"")),
            ("/caf%C3%A9?{}|`", "https://a.example/caf%C3%A9?{}|`", None),
            ("?\u{e9}", "https://a.example/?%C3%A9", Some("?\u{e9}")),
        ] {
            let expected = (expected.to_owned(), path_as_received.map(str::to_owned));
            assert_eq!(read(path, &[], false), Ok(expected), "{path}");
        }
        let long = format!("/{}", "\u{e9}".repeat(12_000));
        assert_eq!((read(&long, &[], false), status(&long, &[])), (Err(414), Err(400)));
    }
}
