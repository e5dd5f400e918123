//! A piece of evidence and its name.

use bytes::Bytes;

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
    /// A [`CaptureRecord`](super::CaptureRecord) in its canonical form.
    Capture,
}

/// What a piece of evidence is found by: its kind, and the SHA-256 of its content.
pub type BlobName = (Kind, [u8; 32]);
