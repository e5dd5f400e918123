//! Converts request heads between HTTP/1.1 and HTTP/2 (RFC 9113 §8).

use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::{Uri, Version, request};

use crate::types::origin::Origin;

/// Headers that HTTP/2 does not have, besides those that `Connection` names (RFC 9113 §8.2.2).
const CONNECTION_SPECIFIC: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Converts origin-form with `Host` to the pseudo-headers `:scheme`, `:authority` and `:path`
/// (RFC 9113 §8.3.1), and removes what belongs to a connection of HTTP/1.1.
pub fn to_http2(head: &mut request::Parts, origin: &Origin) {
    let headers = &mut head.headers;
    let authority = match headers.remove(HOST) {
        Some(host) => host.to_str().map(str::to_owned).ok(),
        None => None,
    };
    let takes_trailers =
        headers.get(TE).is_some_and(|te| te.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in &CONNECTION_SPECIFIC {
        headers.remove(name);
    }
    headers.remove(TE);
    if takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = origin.scheme().as_str().parse().ok();
    parts.authority = authority.unwrap_or_else(|| origin.authority()).parse().ok();
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    head.version = Version::HTTP_2;
}

/// Converts a request back that no HTTP/2 connection took. Any other stays as it is.
pub fn to_http1(head: &mut request::Parts) {
    if head.version != Version::HTTP_2 {
        return;
    }
    head.version = Version::HTTP_11;
    let mut parts = std::mem::take(&mut head.uri).into_parts();
    parts.scheme = None;
    if let Some(authority) = parts.authority.take()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    head.uri = Uri::from_parts(parts).unwrap_or_default();
    if head.headers.contains_key(TE) {
        head.headers.insert(CONNECTION, HeaderValue::from_static("TE"));
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::types::origin::split_url;

    fn head(target: &str) -> request::Parts {
        Request::builder()
            .uri(target)
            .header("host", "example.com:8443")
            .header("connection", "TE, upgrade")
            .header("te", "trailers")
            .header("upgrade", "websocket")
            .header("transfer-encoding", "chunked")
            .header("cookie", "a=b")
            .body(())
            .unwrap()
            .into_parts()
            .0
    }

    #[test]
    fn the_host_becomes_the_authority_and_connection_headers_go() {
        let (origin, _) = split_url(b"https://example.com:8443/").unwrap();
        let mut head = head("/a//../b?q=%7e");
        to_http2(&mut head, &origin);
        assert_eq!(head.uri, "https://example.com:8443/a//../b?q=%7e");
        let mut names: Vec<_> = head.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cookie", "te"]);
    }

    #[test]
    fn a_request_that_was_not_taken_is_converted_back() {
        let (origin, _) = split_url(b"https://example.com:8443/").unwrap();
        for target in ["/a//../b?q=%7e", "*", "/"] {
            let mut head = head(target);
            to_http2(&mut head, &origin);
            to_http1(&mut head);
            assert_eq!(head.uri, target);
            assert_eq!(head.headers["host"], "example.com:8443");
            assert_eq!(head.headers["connection"], "TE");
        }
    }
}
