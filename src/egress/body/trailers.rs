//! Removes trailers that may not be trailers. One that frames, routes or authenticates a message
//! would be merged into the headers by some recipients and not by others (RFC 9110 §6.5.1), so none
//! is forwarded, in either direction and in any version of HTTP.

use bytes::Bytes;
use http::header::{self, Entry, HeaderName};
use http_body::Frame;

/// Headers that may not be trailers.
const NEVER_TRAILERS: [HeaderName; 28] = [
    // framing
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::UPGRADE,
    // routing
    header::HOST,
    header::VIA,
    header::LOCATION,
    // request modifiers and response controls
    header::USER_AGENT,
    header::EXPECT,
    header::MAX_FORWARDS,
    header::RANGE,
    header::CACHE_CONTROL,
    header::AGE,
    header::VARY,
    header::DATE,
    // authentication and state
    header::AUTHORIZATION,
    header::PROXY_AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::COOKIE,
    header::SET_COOKIE,
    // how the content is to be processed
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_RANGE,
];

/// `frame` without such trailers.
pub fn without_misplaced(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        for name in &NEVER_TRAILERS {
            if let Entry::Occupied(entry) = trailers.entry(name) {
                entry.remove_entry_mult();
            }
        }
    }
    frame
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn b7_trailers_that_frame_route_or_authenticate_are_removed() {
        let mut trailers = HeaderMap::new();
        for name in &NEVER_TRAILERS {
            trailers.append(name, "1".parse().unwrap());
            trailers.append(name, "2".parse().unwrap());
        }
        trailers.insert("x-checksum", "3".parse().unwrap());
        let frame = without_misplaced(Frame::trailers(trailers));
        let left = frame.into_trailers().unwrap();
        assert_eq!(left.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-checksum"]);
    }
}
