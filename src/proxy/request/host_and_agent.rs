//! Headers of a request that must be unambiguous before its destination and its agent are read:
//! `Host` and `User-Agent`.

use http::header::{HOST, USER_AGENT};
use http::uri::Authority;
use http::{Version, request};

use super::target::Scope;
use crate::proxy::outcome::rejection::Rejection;

/// RFC 9112 §3.2: no `Host` in HTTP/1.1, more than one, or an invalid one is answered with 400,
/// even though the request target decides.
pub(super) fn check_host(request: &request::Parts, scope: &Scope) -> Result<(), Rejection> {
    let mut values = request.headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        // HTTP/2 has `:authority` in its place (RFC 9113 §8.3.1).
        (None, _) if request.version != Version::HTTP_11 => Ok(()),
        (None, _) => Err(Rejection::bad_request(
            "an HTTP/1.1 request must have a Host header (RFC 9112 §3.2)",
        )),
        (Some(_), Some(_)) => {
            Err(Rejection::bad_request("the request has more than one Host header (RFC 9112 §3.2)"))
        }
        (Some(value), None) => {
            let bytes = value.as_bytes();
            // The usual case; what is known to be valid is not parsed again.
            let same = match (scope, request.uri.authority()) {
                (Scope::Origin(origin), _) => origin.has_authority(bytes),
                (Scope::AnyOrigin, Some(authority)) => authority.as_str().as_bytes() == bytes,
                (Scope::AnyOrigin, None) | (Scope::Address(_), _) => false,
            };
            let valid = || {
                let named = |authority: Authority| {
                    !authority.host().is_empty() && has_valid_port(&authority)
                };
                bytes.is_empty()
                    || !bytes.contains(&b'@') && Authority::try_from(bytes).is_ok_and(named)
            };
            if same || valid() {
                Ok(())
            } else {
                Err(Rejection::bad_request("the Host header is not valid (RFC 9112 §3.2)"))
            }
        }
    }
}

/// The agent that is decided on must be the one that the origin sees. `User-Agent` is no list (RFC
/// 9110 §5.3, §10.1.5): of two, this proxy and an origin may each use a different one.
pub(super) fn check_agent(request: &request::Parts) -> Result<(), Rejection> {
    match request.headers.get_all(USER_AGENT).iter().nth(1) {
        None => Ok(()),
        Some(_) => Err(Rejection::bad_request(
            "the request has more than one User-Agent header (RFC 9110 §5.3)",
        )),
    }
}

/// An empty port is valid (RFC 3986 §3.2.3).
fn has_valid_port(authority: &Authority) -> bool {
    let host = authority.host().len();
    matches!(&authority.as_str()[host..], "" | ":") || authority.port_u16().is_some()
}
