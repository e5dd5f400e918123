//! Rewrites the head of a request for its origin, and that of the response for the client:
//! hop-by-hop headers, `Host` and `Via` (RFC 9110 §7.6).

use http::header::{CONNECTION, EXPECT, HOST, HeaderValue, TE, UPGRADE};
use http::request::Parts as RequestParts;
use http::response::Parts as ResponseParts;
use http::{Uri, Version};

use crate::proxy::request::header_set::HeaderSet;
use crate::proxy::request::hop_by_hop;
use crate::proxy::request::target::Target;
use crate::proxy::request::via::Via;
use crate::types::loop_token::LOOP_TOKEN;

/// Makes of the head as received, of which `header_set` has the names, the head to be sent to
/// `target`. With `protocol` it requests an upgrade.
pub fn request(
    head: &mut RequestParts,
    header_set: HeaderSet,
    target: &Target,
    protocol: Option<HeaderValue>,
    via: &Via,
) {
    let version = head.version;
    let takes_trailers = header_set.has(HeaderSet::TE) && hop_by_hop::takes_trailers(&head.headers);
    if version < Version::HTTP_11 {
        // RFC 9110 §10.1.1: an expectation in HTTP/1.0 is ignored.
        head.headers.remove(EXPECT);
    }
    hop_by_hop::remove_hop_by_hop(&mut head.headers, header_set);
    if header_set.has(HeaderSet::OURS) {
        // Of a proxy before this one, which named it for this hop.
        head.headers.remove(LOOP_TOKEN);
    }
    if header_set.has(HeaderSet::COOKIE) {
        hop_by_hop::join_cookies(&mut head.headers);
    }
    head.uri = Uri::from(target.path.clone());
    head.version = Version::HTTP_11;
    let host = head.headers.get(HOST);
    let is_named = host.is_some_and(|host| target.origin.has_authority(host.as_bytes()));
    if !is_named && let Ok(host) = HeaderValue::try_from(target.origin.authority()) {
        head.headers.insert(HOST, host);
    }
    // RFC 9110 §10.1.4: a TE is listed in Connection, because it is for this hop.
    let mut options = Vec::new();
    if takes_trailers {
        head.headers.insert(TE, HeaderValue::from_static("trailers"));
        options.push("TE");
    }
    if let Some(protocol) = protocol {
        head.headers.insert(UPGRADE, protocol);
        options.push("upgrade");
    }
    if let Ok(options) = HeaderValue::try_from(options.join(", "))
        && !options.is_empty()
    {
        head.headers.insert(CONNECTION, options);
    }
    via.append(&mut head.headers, version);
}

/// Makes of the head of the origin's response the head for the client.
pub fn response(head: &mut ResponseParts, via: &Via) {
    hop_by_hop::clean_response(&mut head.headers);
    via.append(&mut head.headers, head.version);
    head.version = Version::HTTP_11;
}
