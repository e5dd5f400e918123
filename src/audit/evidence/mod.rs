//! Evidence: the bytes of each robots.txt, captures of how it was fetched, and the settings that were
//! in effect, so that records can be checked years later and without this program. Each is stored once, as a blob named by the
//! SHA-256 of its content.

mod blob_store;
pub mod warc;

use std::net::IpAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::policy::access::Capture;
pub use blob_store::{BlobStore, EvidenceIndex, Found, name};
pub(crate) use blob_store::{LineRefs, each_line, over};

/// A piece of evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Of `content`; its name.
    pub sha256: [u8; 32],
    pub kind: Kind,
    pub content: Bytes,
}

/// What a piece of evidence is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A robots.txt, decoded, as far as it was downloaded.
    File,
    /// A [`CaptureRecord`] in its canonical form.
    Capture,
    /// The value of every setting by its dotted key, without secrets: one JSON object in canonical form.
    Settings,
    /// What the command of `audit.publish` has answered to a checkpoint.
    Receipt,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::File, Self::Capture, Self::Settings, Self::Receipt];
}

/// What a piece of evidence is found by: its kind, and the SHA-256 of its content.
pub type BlobName = (Kind, [u8; 32]);

// How an attempt to fetch a robots.txt went, written down: canonical JSON (RFC 8785: the members of
// every object in alphabetical order, no white space), so that one attempt has one SHA-256.

/// The members are in alphabetical order; so must new ones be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureRecord {
    /// One for each request of the chain that was answered, the last one last.
    pub answers: Vec<Answer>,
    /// The URL that was asked for first.
    pub asked: String,
    /// The file, where one came.
    pub body: Option<Body>,
    /// Why there is none.
    pub failure: Option<Failure>,
    /// When the attempt ended: milliseconds since 1970-01-01T00:00:00Z.
    pub fetched_at: u64,
    /// What was sent as User-Agent. Captures of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// One response of the fetch, redirects included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Status line and fields as HTTP/1.1 has them, each byte as the character of that number
    /// (ISO 8859-1), each line with its CRLF.
    pub head: String,
    /// There were more fields than are kept of one head; those without room are not in it.
    pub head_cut: bool,
    /// The address that answered, where it is known.
    pub peer: Option<IpAddr>,
    /// The request as it was sent: its line and fields as HTTP/1.1 has them, each line with its CRLF. Captures of
    /// earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The status of the response.
    pub status: u16,
    pub url: String,
    /// The parent proxy that it came by: scheme, host and port. Left out where the connection was direct, as
    /// in captures of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// The body of the last response, which is kept as its own blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The file is longer than the size limit; the rest was not downloaded.
    pub cut: bool,
    /// Bytes of the body that were read.
    #[serde(rename = "octets")]
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// Why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The status of a parent proxy that made no connection: not the origin's. Left out where it answered
    /// with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_status: Option<u16>,
    /// In words.
    pub text: String,
    /// The parent proxy that made no connection: scheme, host and port. Left out elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// As [`crate::policy::access::Cause::word`] has it.
    pub word: String,
}

impl CaptureRecord {
    /// The canonical form and its digest.
    pub fn seal(&self) -> Capture {
        let json = serde_json::to_vec(self).expect("it is made of plain values").into_boxed_slice();
        Capture { sha256: Sha256::digest(&json).into(), json: json.into() }
    }
}
