//! A body decodes to the same file in whatever pieces it comes, never to more than the limit, and to
//! what another reader of gzip makes of the whole of it.

use std::io::Read;

use courtesy::store::fetch::probe::decode;
use flate2::bufread::GzDecoder;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::input::Input;

/// Whether it is gzip, the limit, the length of a piece, then the body.
pub fn holds(bytes: &[u8]) {
    let mut input = Input(bytes);
    let coding = if input.flag() { "gzip" } else { "identity" };
    let limit = usize::from(input.byte()) * 16;
    let piece = usize::from(input.byte()) + 1;
    let body = input.0;
    let fields = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))]);

    let whole = decode(&fields, limit, &[body]);
    let pieces: Vec<&[u8]> = body.chunks(piece).collect();
    match (decode(&fields, limit, &pieces), &whole) {
        (Some(in_pieces), Some(whole)) => assert_eq!(in_pieces, *whole, "in pieces of {piece}"),
        (None, None) => {}
        // Whether what is broken behind the limit is met depends on how much comes at once.
        (Some((_, cut)), None) | (None, &Some((_, cut))) => assert!(cut, "in pieces of {piece}"),
    }

    if let Some((file, cut)) = &whole {
        assert!(file.len() <= limit && (!cut || file.len() == limit));
    }
    // What it is shows in its first bytes, whatever the coding says.
    if !body.starts_with(b"\x1f\x8b") && body != b"\x1f" {
        let Some((file, cut)) = whole else { return };
        assert_eq!(file, body[..body.len().min(limit)]);
        assert_eq!(cut, body.len() > limit);
        return;
    }
    match (gunzip(body, limit), whole) {
        (Some(plain), Some((file, cut))) => {
            assert_eq!(file, plain[..plain.len().min(limit)]);
            assert_eq!(cut, plain.len() > limit);
        }
        (Some(plain), None) => {
            let is_twice = plain.starts_with(b"\x1f\x8b");
            assert!(is_twice || plain.len() > limit, "{} bytes were refused", plain.len());
        }
        (None, Some((_, cut))) => assert!(cut, "broken data was taken for a file"),
        (None, None) => {}
    }
}

/// All of it, or nothing; of a file beyond the limit no more than shows that it is. What is behind a
/// member and begins no other is not gzip.
fn gunzip(mut body: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    loop {
        let mut member = GzDecoder::new(&mut body);
        let room = (limit + 1 - plain.len()) as u64;
        member.by_ref().take(room).read_to_end(&mut plain).ok()?;
        if plain.len() > limit || !body.starts_with(b"\x1f\x8b") {
            return Some(plain);
        }
    }
}
