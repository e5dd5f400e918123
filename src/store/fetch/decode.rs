//! Decodes a body while it arrives, up to the size limit.
//!
//! The limit applies to decoded bytes, so that a compression bomb costs no more than an honest
//! large file, and to encoded bytes too, for codings that consume input without output. A body that
//! does not decode to its end is discarded.

#[cfg(test)]
mod tests;

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
