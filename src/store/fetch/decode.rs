//! Decodes a body while it arrives, up to the size limit.
//!
//! The limit applies to decoded bytes, so that a compression bomb costs no more than an honest
//! large file, and to encoded bytes too, for codings that consume input without output. A body that
//! does not decode to its end is discarded.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// How many bytes longer than the decoded limit an encoded robots.txt may be. No honest gzip file
/// grows by more than its few headers.
const ENCODED_SURPLUS_BYTES: usize = 16 * 1024;

pub(super) struct Decoder {
    coding: Coding,
    encoded: usize,
    encoded_max: usize,
}

enum Coding {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
}

/// Whether more of the body is needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    /// The file exceeds the limit; the rest need not be downloaded.
    Nothing,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecodable {
    #[error("the content coding \"{0}\" was not requested")]
    Coding(String),
    #[error("the gzip data is broken: {0}")]
    Gzip(String),
    #[error("the encoded file is longer than {0} bytes")]
    TooLong(usize),
}

/// A file, possibly truncated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub body: Vec<u8>,
    pub cut: bool,
}

impl Decoder {
    /// For the codings in `headers` (RFC 9110 §8.4); `limit` is in decoded bytes.
    pub(super) fn new(headers: &HeaderMap, limit: usize) -> Result<Self, Undecodable> {
        let bounded = Bounded { body: Vec::new(), limit, cut: false };
        let coding = match content_coding(headers).as_str() {
            "" | "identity" => Coding::Identity(bounded),
            "gzip" | "x-gzip" => Coding::Gzip(Box::new(MultiGzDecoder::new(bounded))),
            other => return Err(Undecodable::Coding(other.chars().take(64).collect())),
        };
        Ok(Self { coding, encoded: 0, encoded_max: limit.saturating_add(ENCODED_SURPLUS_BYTES) })
    }

    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Wanted, Undecodable> {
        self.encoded = self.encoded.saturating_add(chunk.len());
        let written = match &mut self.coding {
            Coding::Identity(bounded) => bounded.write_all(chunk),
            Coding::Gzip(gzip) => gzip.write_all(chunk),
        };
        match written {
            _ if self.bounded().cut => Ok(Wanted::Nothing),
            Err(error) => Err(Undecodable::Gzip(error.to_string())),
            Ok(()) if self.encoded > self.encoded_max => {
                Err(Undecodable::TooLong(self.encoded_max))
            }
            Ok(()) => Ok(Wanted::More),
        }
    }

    /// Ends the body, or the interest in it.
    pub(super) fn finish(mut self) -> Result<Decoded, Undecodable> {
        if let Coding::Gzip(gzip) = &mut self.coding {
            // An empty body is an empty file, whatever its coding.
            let is_over = self.encoded == 0 || gzip.get_ref().cut;
            let finished = if is_over { Ok(()) } else { gzip.try_finish() };
            match finished {
                Err(error) if !gzip.get_ref().cut => {
                    return Err(Undecodable::Gzip(error.to_string()));
                }
                _ => {}
            }
        }
        let bounded = match &mut self.coding {
            Coding::Identity(bounded) => bounded,
            Coding::Gzip(gzip) => gzip.get_mut(),
        };
        Ok(Decoded { body: std::mem::take(&mut bounded.body), cut: bounded.cut })
    }

    fn bounded(&self) -> &Bounded {
        match &self.coding {
            Coding::Identity(bounded) => bounded,
            Coding::Gzip(gzip) => gzip.get_ref(),
        }
    }
}

fn content_coding(headers: &HeaderMap) -> String {
    let lines: Vec<_> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(|line| String::from_utf8_lossy(line.as_bytes()).trim().to_ascii_lowercase())
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(", ")
}

/// Keeps bytes up to the limit, and fails at the first one beyond.
struct Bounded {
    body: Vec<u8>,
    limit: usize,
    cut: bool,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.limit - self.body.len();
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            self.cut = true;
            return Err(io::Error::other("the size limit is reached"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            decode("gzip", &[&gzip(b"a"), &gzip(b"b")]),
            whole(b"ab"),
            "RFC 1952 §2.2: members"
        );
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
}
