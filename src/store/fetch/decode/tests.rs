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
    assert!(decoder.content.bounded().body.capacity() <= 2 * LIMIT);
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

/// What servers send, what is made of it, and whose habit it is.
#[test]
fn what_a_body_is_shows_in_its_bytes() {
    let plain = b"user-agent: *\ndisallow: /\n";
    let packed = gzip(plain);
    let file = || whole(plain);
    let behind = |rest: &[u8]| [&packed[..], rest].concat();
    for (name, coding, body, expected) in [
        ("no coding: a template's default", "none", plain.to_vec(), file()),
        ("no coding: a character encoding", "UTF-8", plain.to_vec(), file()),
        ("no coding: of e-mail (RFC 2045)", "binary", plain.to_vec(), file()),
        ("no coding: of e-mail (RFC 2045)", "8bit", plain.to_vec(), file()),
        ("no coding: a transfer coding", "chunked", plain.to_vec(), file()),
        ("no coding: a media type", "text/plain", plain.to_vec(), file()),
        ("no coding: quoted", "\"none\"", plain.to_vec(), file()),
        ("an empty element (RFC 9110 §5.6.1)", "gzip,", packed.clone(), file()),
        ("empty elements", ", gzip , ,", packed.clone(), file()),
        ("identity in a list", "identity, gzip", packed.clone(), file()),
        ("identity last", "gzip, identity", packed.clone(), file()),
        ("a coding and none", "gzip, utf-8", packed.clone(), file()),
        ("the label of a cache twice", "gzip, gzip", packed.clone(), file()),
        ("gzip over text: an error page of a proxy", "gzip", plain.to_vec(), file()),
        ("x-gzip over text", "x-gzip", plain.to_vec(), file()),
        ("gzip over one byte", "gzip", b"#".to_vec(), whole(b"#")),
        ("a newline behind: a script's ?>", "gzip", behind(b"\n"), file()),
        ("markup behind: a web host's counter", "gzip", behind(b"<script></script>"), file()),
        ("zeros behind: blocks of a tape", "gzip", behind(&[0; 600]), file()),
        ("half a signature behind", "gzip", behind(b"\x1f"), file()),
        ("gzip without a label: robots.txt.gz", "", packed.clone(), file()),
        ("gzip labelled as none", "identity", packed.clone(), file()),
        (
            "gzip of two members without a label",
            "",
            behind(&gzip(b"#")),
            whole(&[&plain[..], b"#"].concat()),
        ),
    ] {
        let pieces: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(coding, &[&body]), expected, "{name}");
        assert_eq!(decode(coding, &pieces), expected, "{name}, byte by byte");
    }
}

#[test]
fn what_cannot_be_read_is_not_a_file() {
    let packed = gzip(b"user-agent: *\ndisallow: /\n");
    let mut flipped = packed.clone();
    let checksum = flipped.len() - 8;
    flipped[checksum] ^= 1;
    let second = [&packed[..], &flipped].concat();
    let cut_second = [&packed[..], &packed[..20]].concat();
    for (name, body) in [
        ("a wrong sum", &flipped[..]),
        ("a second member that is broken", &second),
        ("a second member that is cut", &cut_second),
        ("two bytes", &packed[..2]),
        ("compressed twice", &gzip(&packed)),
        ("zlib", b"\x78\x9c\x4b\x04\x00\x00\x62\x00\x62"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04\x00"),
        ("compress", b"\x1f\x9d\x90"),
        ("bzip2", b"BZh91AY"),
        ("xz", b"\xfd7zXZ\0"),
    ] {
        let pieces: Vec<&[u8]> = body.chunks(1).collect();
        for coding in ["gzip", "", "none"] {
            for result in [decode(coding, &[body]), decode(coding, &pieces)] {
                let is_refused =
                    matches!(result, Err(Undecodable::Gzip(_) | Undecodable::Format(_)));
                assert!(is_refused, "{name}, {coding:?}: {result:?}");
            }
        }
    }
}

#[test]
fn a_coding_that_was_not_asked_for_is_not_guessed_at() {
    for coding in ["br", "deflate", "gzip, br", "none, BR", "zstd", "x-compress"] {
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
