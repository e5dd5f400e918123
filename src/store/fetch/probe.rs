//! Exposes the fetcher's parsers to the property tests in `tests/properties`, without a connection.
//! Not part of the interface.

use std::time::Duration;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode, Uri};

use super::decode::{Decoder, Wanted};
use super::head;
use super::redirect::Chain;
use crate::policy::access::Freshness;
use crate::types::http_time::retry_after;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// The next request after a redirect: its URL, origin, target and `Host`.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub url: String,
    pub origin: Origin,
    pub target: Uri,
    pub host: HeaderValue,
}

/// Where `location` leads from the robots.txt of `origin`; `None` if the redirect is refused.
pub fn redirect(origin: &Origin, location: HeaderValue) -> Option<Next> {
    let mut chain = Chain::new(origin, 1);
    chain.follow(StatusCode::FOUND, &HeaderMap::from_iter([(LOCATION, location)])).ok()?;
    let hop = chain.here();
    let (origin, target) = (hop.origin.clone(), hop.target.clone());
    Some(Next { url: hop.url.clone(), origin, target, host: hop.host.clone() })
}

/// The freshness of a response, and its `Retry-After`.
pub fn times(fields: &HeaderMap, now: Timestamp) -> (Freshness, Option<Duration>) {
    (head::freshness(fields, now), retry_after(fields, now))
}

/// Decodes a body that arrives in these chunks, up to `limit` bytes. Returns whether it was
/// truncated; `None` if it does not decode.
pub fn decode(fields: &HeaderMap, limit: usize, pieces: &[&[u8]]) -> Option<(Vec<u8>, bool)> {
    let mut decoder = Decoder::new(fields, limit).ok()?;
    for piece in pieces {
        if decoder.push(piece).ok()? == Wanted::Nothing {
            break;
        }
    }
    decoder.finish().ok().map(|decoded| (decoded.body, decoded.cut))
}
