//! A compressed robots.txt, shared by all origins that serve it.

use bytes::Bytes;

use super::deflate::{Deflater, inflate};

/// Common lines of robots.txt files, the most frequent last, where references to them are shortest.
pub(super) const DICTIONARY: &[u8] = include_bytes!("common_file.txt");

#[derive(Debug)]
pub(in crate::store) struct CompressedFile {
    /// Of the uncompressed bytes.
    pub(in crate::store) sha256: [u8; 32],
    deflated: Box<[u8]>,
    bytes: usize,
}

impl CompressedFile {
    pub(super) fn new(sha256: [u8; 32], body: &[u8], deflater: &mut Deflater) -> Option<Self> {
        let deflated = deflater.deflate(body, DICTIONARY)?.into_boxed_slice();
        Some(Self { sha256, deflated, bytes: body.len() })
    }

    pub(super) fn body(&self) -> Option<Bytes> {
        inflate(&self.deflated, DICTIONARY, self.bytes).map(Bytes::from)
    }

    /// The uncompressed length.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(in crate::store) const fn compressed_bytes(&self) -> usize {
        self.deflated.len()
    }
}
