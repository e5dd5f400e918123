//! One record of a WARC 1.1 file: its named fields, its digests, its place among the others.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use time::UtcDateTime;
use time::macros::format_description;

use crate::types::sanitize;
use crate::types::timestamp::Timestamp;

/// A record's identifier: a UUID of what it is made of (RFC 9562 §5.8), so that the same evidence
/// has the same one in every archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id([u8; 16]);

/// How the records follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// `.warc`
    Plain,
    /// `.warc.gz`: each record a gzip member, so that readers can begin at any of them.
    Gzip,
}

/// A record without its block.
#[derive(Debug)]
pub struct Record {
    fields: String,
}

impl Id {
    /// The identity made of `parts`.
    pub fn of(parts: &[&str]) -> Self {
        let digest = Sha256::digest(parts.join("\n"));
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        bytes[6] = bytes[6] & 0x0f | 0x80;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = sanitize::hex(&self.0);
        let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
        write!(f, "<urn:uuid:{a}-{b}-{c}-{d}-{e}>")
    }
}

impl Record {
    /// A record of this type (`warcinfo`, `response`…), made `at` this time, with its first fields.
    pub fn new(kind: &str, id: Id, at: Timestamp) -> Self {
        let mut record = Self { fields: "WARC/1.1\r\n".to_owned() };
        record.field("WARC-Type", kind);
        record.id("WARC-Record-ID", id);
        record.field("WARC-Date", &date(at));
        record
    }

    /// A named field; `value` has no line ends.
    pub fn field(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.fields.push_str(part);
        }
    }

    /// Adds a field with an identity.
    pub fn id(&mut self, name: &str, id: Id) {
        self.field(name, &id.to_string());
    }

    /// Adds a field with the digest of `bytes`.
    pub fn digest(&mut self, name: &str, bytes: &[u8]) {
        self.field(name, &format!("sha256:{}", sanitize::sha256_hex(bytes)));
    }

    /// Writes the record with its `block`.
    pub fn write(mut self, out: &mut impl Write, packing: Packing, block: &[u8]) -> io::Result<()> {
        self.digest("WARC-Block-Digest", block);
        self.field("Content-Length", &block.len().to_string());
        let parts = [self.fields.as_bytes(), b"\r\n", block, b"\r\n\r\n"];
        match packing {
            Packing::Plain => parts.into_iter().try_for_each(|part| out.write_all(part)),
            Packing::Gzip => {
                let mut member = GzEncoder::new(out, Compression::default());
                parts.into_iter().try_for_each(|part| member.write_all(part))?;
                member.finish().map(drop)
            }
        }
    }
}

/// RFC 3339 in UTC, with the milliseconds that WARC 1.1 has room for.
pub fn date(moment: Timestamp) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    let date = UtcDateTime::from_unix_timestamp_nanos(i128::from(moment.millis()) * 1_000_000)
        .unwrap_or(UtcDateTime::MAX);
    date.format(&format).expect("the format has no parts that a date lacks")
}
