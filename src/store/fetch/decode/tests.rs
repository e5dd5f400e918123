use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;

use super::*;

const LIMIT: usize = 1000;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn decode(coding: &str, chunks: &[&[u8]]) -> Result<Decoded, Undecodable> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_str(coding).expect("a field value"));
    let mut decoder = Decoder::new(&headers, LIMIT)?;
    for chunk in chunks {
        if decoder.push(chunk)? == Wanted::Nothing {
            break;
        }
    }
    decoder.finish()
}

fn whole(body: &[u8]) -> Result<Decoded, Undecodable> {
    Ok(Decoded { body: body.to_vec(), cut: false })
}

#[test]
fn a_file_arrives_as_it_was_sent_in_whatever_pieces() {
    let plain = b"user-agent: *\ndisallow: /\n".repeat(10);
    let encoded = gzip(&plain);
    assert_eq!(decode("identity", &[&plain]), whole(&plain));
    assert_eq!(decode("", &[&plain[..7], &plain[7..]]), whole(&plain));
    for size in [1, 2, 7, encoded.len()] {
        let pieces: Vec<&[u8]> = encoded.chunks(size).collect();
        assert_eq!(decode("GZIP", &pieces), whole(&plain), "in pieces of {size}");
        assert_eq!(decode("x-gzip", &pieces), whole(&plain), "in pieces of {size}");
    }
    assert_eq!(decode("gzip", &[&gzip(b"a"), &gzip(b"b")]), whole(b"ab"), "RFC 1952 §2.2: members");
}

#[test]
fn an_empty_body_is_an_empty_file_in_any_coding() {
    assert_eq!(decode("identity", &[]), whole(b""));
    assert_eq!(decode("gzip", &[]), whole(b""));
    assert_eq!(decode("gzip", &[&gzip(b"")]), whole(b""));
}

#[test]
fn what_is_beyond_the_limit_is_cut_and_no_longer_wanted() {
    for length in [LIMIT - 1, LIMIT, LIMIT + 1, 50 * LIMIT] {
        let plain = vec![b'x'; length];
        let expected = Decoded { body: vec![b'x'; length.min(LIMIT)], cut: length > LIMIT };
        assert_eq!(decode("identity", &[&plain, b""]).as_ref(), Ok(&expected), "{length}");
        assert_eq!(decode("gzip", &[&gzip(&plain)]).as_ref(), Ok(&expected), "{length} packed");
    }
}

#[test]
fn a_bomb_unfolds_no_further_than_the_limit() {
    let bomb = gzip(&vec![0; 4 * 1024 * 1024]);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    let mut decoder = Decoder::new(&headers, LIMIT).expect("a known coding");
    assert_eq!(decoder.push(&bomb), Ok(Wanted::Nothing));
    assert!(decoder.bounded().body.capacity() <= 2 * LIMIT);
    assert_eq!(decoder.finish(), Ok(Decoded { body: vec![0; LIMIT], cut: true }));
}

#[test]
fn a_file_that_breaks_off_at_any_byte_is_not_a_shorter_file() {
    let encoded = gzip(b"user-agent: *\nallow: /a\ndisallow: /\n");
    for length in 1..encoded.len() {
        let result = decode("gzip", &[&encoded[..length]]);
        assert!(matches!(result, Err(Undecodable::Gzip(_))), "{length}: {result:?}");
    }
}

#[test]
fn broken_data_is_not_a_file() {
    let mut flipped = gzip(b"user-agent: *\ndisallow: /\n");
    let checksum = flipped.len() - 8;
    flipped[checksum] ^= 1;
    let trailing = [gzip(b"user-agent: *\n"), b"garbage".to_vec()].concat();
    for body in [&b"user-agent: *\n"[..], &flipped, &trailing] {
        assert!(matches!(decode("gzip", &[body]), Err(Undecodable::Gzip(_))), "{body:?}");
    }
}

#[test]
fn a_coding_that_was_not_asked_for_is_not_guessed_at() {
    for coding in ["br", "deflate", "gzip, gzip", "gzip, br"] {
        assert!(matches!(decode(coding, &[b"x"]), Err(Undecodable::Coding(_))), "{coding}");
    }
}

#[test]
fn bytes_that_decode_to_nothing_have_a_bound() {
    let nothing = gzip(b"").repeat(10_000);
    assert!(matches!(
        decode("gzip", &nothing.chunks(4096).collect::<Vec<_>>()),
        Err(Undecodable::TooLong(_))
    ));
}
