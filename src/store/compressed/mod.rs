//! What is known of an origin in compressed form, at a tenth of the size of a ready entry: what the
//! disk stores of it, compressed with a dictionary of common values.

mod deflate;
mod facts;
mod file;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use super::convert::Blobs;
use super::entry::Entry;
use super::persisted::{Digest, Persisted};
use crate::types::origin::Origin;
use crate::types::sanitize::hex;
use deflate::{Deflater, inflate};
pub(super) use file::CompressedFile;

/// Common values of stored entries and captures, the most frequent last.
const DICTIONARY: &[u8] = include_bytes!("common_facts.txt");

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Compressed {
    /// Encoded by [`facts`], then deflated.
    facts: Arc<[u8]>,
    /// The uncompressed length.
    bytes: u32,
    /// Kept up to date, because the site status may change meanwhile.
    pub(super) site_up: bool,
    /// Whether the same entry is in the ready tier as well.
    pub(super) is_ready: bool,
    pub(super) file: Option<Arc<CompressedFile>>,
}

/// Compresses entries, one at a time.
#[derive(Debug, Default)]
pub(super) struct Compressor(Deflater);

impl Compressor {
    /// `None` if it cannot be compressed, which is not expected. `file` is the entry's file, if it
    /// has been compressed for another origin.
    pub(super) fn compress(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: Option<Arc<CompressedFile>>,
    ) -> Option<Compressed> {
        let Self(deflater) = self;
        let (mut persisted, blobs) = entry.persist();
        let file = match (file, entry.snapshot()) {
            (None, Some(snapshot)) => {
                Some(Arc::new(CompressedFile::new(snapshot.sha256, &snapshot.body, deflater)?))
            }
            (file, _) => file,
        };
        let site_up = std::mem::replace(&mut persisted.site_up, true);
        let text = facts::write(persisted, &blobs)?;
        let facts = deflater.deflate(&text, &dictionary(origin, file.as_deref()))?.into();
        Some(Compressed {
            facts,
            bytes: u32::try_from(text.len()).ok()?,
            site_up,
            is_ready: false,
            file,
        })
    }
}

impl Compressed {
    /// The entry's parts, if the data is intact. `ready` returns the file's bytes by their SHA-256,
    /// if they are in memory.
    pub(super) fn open(
        &self,
        origin: &Origin,
        ready: impl FnOnce(&[u8; 32]) -> Option<Bytes>,
    ) -> Option<(Persisted, Blobs)> {
        let file = self.file.as_deref();
        let bytes = usize::try_from(self.bytes).ok()?;
        let text = inflate(&self.facts, &dictionary(origin, file), bytes)?;
        let (mut persisted, mut blobs) = facts::read(&text, file.map(|file| Digest(file.sha256)))?;
        persisted.site_up = self.site_up;
        if let Some(file) = file {
            let body = ready(&file.sha256).or_else(|| file.body())?;
            blobs.insert(Digest(file.sha256), body);
        }
        Some((persisted, blobs))
    }

    /// Whether both are the same object, not merely of the same origin.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
    }

    /// The uncompressed length.
    pub(super) fn bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |file| file.bytes());
        file.saturating_add(usize::try_from(self.bytes).unwrap_or(usize::MAX))
    }

    /// The compressed length without the file.
    pub(super) fn compressed_bytes(&self) -> usize {
        self.facts.len()
    }
}

/// Extends the dictionary by the origin and the file's digest, which the reader knows, too.
fn dictionary(origin: &Origin, file: Option<&CompressedFile>) -> Vec<u8> {
    let sha256 = file.map_or_else(String::new, |file| hex(&file.sha256));
    [DICTIONARY, sha256.as_bytes(), origin.to_string().as_bytes()].concat()
}
