//! What a record can be checked against, years later and without us: the bytes of each robots.txt,
//! and how each answer came about. Both are kept once, by the SHA-256 of their content.

mod capture;
mod shelf;
pub mod warc;
mod warc_head;
mod warc_record;

pub use capture::{Answer, Body, CaptureRecord, Failure};
pub use shelf::{Found, Shelf, name};

use bytes::Bytes;

/// One thing that is kept as evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhibit {
    /// Of `content`; its name.
    pub sha256: [u8; 32],
    pub kind: Kind,
    pub content: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A robots.txt, decoded, as far as it was downloaded.
    File,
    /// A [`CaptureRecord`] in its canonical form.
    Capture,
}
