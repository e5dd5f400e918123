//! Decodes a body while it arrives, up to the size limit.
//!
//! What a body is shows in its first bytes, whatever its `Content-Encoding` says: servers label text
//! as gzip, and send gzip without a label. Compressed data that this cannot read is a failure, never
//! a file without rules.
//!
//! The limit applies to decoded bytes, so that a compression bomb costs no more than an honest
//! large file, and to encoded bytes too, for codings that consume input without output. A body that
//! does not decode to its end is discarded.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use flate2::write::GzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

/// How many bytes longer than the decoded limit an encoded robots.txt may be. No honest gzip file
/// grows by more than its few headers.
const ENCODED_SURPLUS_BYTES: usize = 16 * 1024;

/// The registered content codings (IANA, HTTP Content Coding Registry) that are not decoded here: no
/// request asks for them. Whatever is no coding, such as `none` or `UTF-8`, changes nothing.
const OTHER_CODINGS: [&str; 10] = [
    "aes128gcm",
    "br",
    "compress",
    "dcb",
    "dcz",
    "deflate",
    "exi",
    "pack200-gzip",
    "x-compress",
    "zstd",
];

/// The first bytes of gzip data (RFC 1952 §2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The first bytes of compressed data that is not decoded, and its name. No text begins so.
const OTHER_FORMATS: [(&[u8], &str); 10] = [
    // RFC 1950 §2.2, of the windows and levels that are in use.
    (&[0x78, 0x01], "zlib"),
    (&[0x78, 0x5e], "zlib"),
    (&[0x78, 0x9c], "zlib"),
    (&[0x78, 0xda], "zlib"),
    // RFC 8878 §3.1.1.
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (&[0x1f, 0x9d], "compress"),
    (&[0x1f, 0xa0], "compress"),
    (b"BZh", "bzip2"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz"),
    (b"PK\x03\x04", "zip"),
];

/// Bytes that tell what a body is.
const FORMAT_BYTES: usize = 5;

pub(super) struct Decoder {
    content: Content,
    encoded: usize,
    encoded_max: usize,
}

enum Content {
    /// The first bytes, fewer than tell what they begin.
    Unknown(Vec<u8>, Bounded),
    Plain(Bounded),
    Gzip(Box<GzDecoder<Bounded>>),
    /// Behind a member of gzip data, with what may be the first bytes of another (RFC 1952 §2.2).
    BehindMember(Vec<u8>, Bounded),
    /// Behind gzip data that is whole: what follows is none of it, as for gzip(1).
    Over(Bounded),
}

/// Whether more of the body is needed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    /// The file exceeds the limit, or is whole; the rest need not be downloaded.
    Nothing,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Undecodable {
    #[error("the content coding \"{0}\" was not requested")]
    Coding(String),
    #[error("it is {0} data, which was not requested")]
    Format(&'static str),
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
        if let Some(other) = other_coding(headers) {
            return Err(Undecodable::Coding(other.to_owned()));
        }
        let bounded = Bounded { body: Vec::new(), limit, cut: false };
        let content = Content::Unknown(Vec::new(), bounded);
        Ok(Self { content, encoded: 0, encoded_max: limit.saturating_add(ENCODED_SURPLUS_BYTES) })
    }

    pub(super) fn push(&mut self, chunk: &[u8]) -> Result<Wanted, Undecodable> {
        self.encoded = self.encoded.saturating_add(chunk.len());
        let written = self.write(chunk);
        match (written, &self.content) {
            _ if self.content.bounded().cut => Ok(Wanted::Nothing),
            (Err(error), _) => Err(error),
            (Ok(()), Content::Over(_)) => Ok(Wanted::Nothing),
            (Ok(()), _) if self.encoded > self.encoded_max => {
                Err(Undecodable::TooLong(self.encoded_max))
            }
            (Ok(()), _) => Ok(Wanted::More),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Undecodable> {
        while !bytes.is_empty() {
            let taken = match &mut self.content {
                Content::Unknown(start, _) => take(start, bytes, FORMAT_BYTES),
                Content::BehindMember(start, _) => take(start, bytes, GZIP.len()),
                Content::Plain(bounded) => bounded.write(bytes).map_err(broken)?,
                Content::Gzip(member) => member.write(bytes).map_err(broken)?,
                Content::Over(_) => bytes.len(),
            };
            bytes = &bytes[taken..];
            let is_known = match &self.content {
                Content::Unknown(start, _) => start.len() == FORMAT_BYTES,
                Content::BehindMember(start, _) => start.len() == GZIP.len(),
                // A member that takes no more has ended.
                Content::Gzip(_) => taken == 0,
                Content::Plain(_) | Content::Over(_) => false,
            };
            if is_known {
                self.advance()?;
            }
        }
        Ok(())
    }

    /// Goes on to what the bytes so far are.
    fn advance(&mut self) -> Result<(), Undecodable> {
        let placeholder = Content::Over(Bounded::default());
        let (start, next) = match std::mem::replace(&mut self.content, placeholder) {
            Content::Unknown(start, bounded) if start.starts_with(GZIP) => {
                (start, Content::Gzip(Box::new(GzDecoder::new(bounded))))
            }
            Content::Unknown(start, bounded) => {
                let is_so = |(bytes, _): &&(&[u8], &str)| start.starts_with(bytes);
                if let Some((_, name)) = OTHER_FORMATS.iter().find(is_so) {
                    return Err(Undecodable::Format(name));
                }
                (start, Content::Plain(bounded))
            }
            Content::BehindMember(start, bounded) if start == GZIP => {
                (start, Content::Gzip(Box::new(GzDecoder::new(bounded))))
            }
            Content::Gzip(mut member) => {
                (Vec::new(), Content::BehindMember(Vec::new(), end(&mut member)?))
            }
            Content::BehindMember(_, bounded) | Content::Over(bounded) => {
                (Vec::new(), Content::Over(bounded))
            }
            Content::Plain(bounded) => (Vec::new(), Content::Plain(bounded)),
        };
        self.content = next;
        self.write(&start)
    }

    /// Ends the body, or the interest in it.
    pub(super) fn finish(mut self) -> Result<Decoded, Undecodable> {
        if let Content::Unknown(start, _) = &self.content {
            if start == &GZIP[..1] {
                return Err(Undecodable::Gzip("it ends in its first bytes".into()));
            }
            self.advance()?;
        }
        let bounded = match self.content {
            Content::Gzip(mut member) => end(&mut member)?,
            Content::Unknown(_, bounded)
            | Content::Plain(bounded)
            | Content::BehindMember(_, bounded)
            | Content::Over(bounded) => bounded,
        };
        if bounded.body.starts_with(GZIP) {
            return Err(Undecodable::Gzip("it is compressed twice".into()));
        }
        Ok(Decoded { body: bounded.body, cut: bounded.cut })
    }
}

impl Content {
    fn bounded(&self) -> &Bounded {
        match self {
            Self::Unknown(_, bounded)
            | Self::Plain(bounded)
            | Self::BehindMember(_, bounded)
            | Self::Over(bounded) => bounded,
            Self::Gzip(member) => member.get_ref(),
        }
    }
}

/// Appends to `start` of `bytes` up to `length` in all; how many those are.
fn take(start: &mut Vec<u8>, bytes: &[u8], length: usize) -> usize {
    let taken = bytes.len().min(length - start.len());
    start.extend_from_slice(&bytes[..taken]);
    taken
}

/// Ends a member, which must be whole unless the limit is reached before.
fn end(member: &mut GzDecoder<Bounded>) -> Result<Bounded, Undecodable> {
    match member.try_finish() {
        Err(error) if !member.get_ref().cut => Err(broken(error)),
        _ => Ok(std::mem::take(member.get_mut())),
    }
}

fn broken(error: io::Error) -> Undecodable {
    Undecodable::Gzip(error.to_string())
}

/// The first coding in `headers` that is not decoded here.
fn other_coding(headers: &HeaderMap) -> Option<&'static str> {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let mut codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    codings.find_map(|coding| {
        let is_it = |other: &&&str| coding.trim_ascii().eq_ignore_ascii_case(other.as_bytes());
        OTHER_CODINGS.iter().find(is_it).copied()
    })
}

/// Keeps bytes up to the limit, and fails at the first one beyond.
#[derive(Default)]
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
