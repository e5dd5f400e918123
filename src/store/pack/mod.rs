//! What is known of an origin, packed: a tenth of what it takes where it is ready to answer with. It is
//! what the disk would have of it, compressed against what such things have in common.

mod deflate;
mod facts;
mod file;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use super::entry::Entry;
use super::knowledge::{Digest, Knowledge};
use super::restore::Blobs;
use crate::types::origin::Origin;
use crate::types::sanitize::hex;
use deflate::{Deflater, inflate};
pub(super) use file::PackedFile;

/// What knowledge and captures say, the most frequent last.
const DICTIONARY: &[u8] = include_bytes!("common_facts.txt");

/// Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Pack {
    /// As [`facts`] has them, deflated.
    facts: Arc<[u8]>,
    /// How long they are unpacked.
    bytes: u32,
    /// As it is now: there may be news of the site while it is packed.
    pub(super) site_up: bool,
    /// Whether the entry that it was made of, or that was made of it, is ready as well.
    pub(super) is_open: bool,
    pub(super) file: Option<Arc<PackedFile>>,
}

/// Makes packs, one at a time.
#[derive(Debug, Default)]
pub(super) struct Packer(Deflater);

impl Packer {
    /// Nothing where it cannot be packed, for which there is no reason. `file` is that of the entry, where
    /// it has been packed for another origin.
    pub(super) fn pack(
        &mut self,
        origin: &Origin,
        entry: &Entry,
        file: Option<Arc<PackedFile>>,
    ) -> Option<Pack> {
        let Self(deflater) = self;
        let (mut knowledge, blobs) = entry.keep();
        let file = match (file, entry.snapshot()) {
            (None, Some(snapshot)) => {
                Some(Arc::new(PackedFile::new(snapshot.sha256, &snapshot.body, deflater)?))
            }
            (file, _) => file,
        };
        let site_up = std::mem::replace(&mut knowledge.site_up, true);
        let text = facts::write(knowledge, &blobs)?;
        let facts = deflater.deflate(&text, &dictionary(origin, file.as_deref()))?.into();
        Some(Pack { facts, bytes: u32::try_from(text.len()).ok()?, site_up, is_open: false, file })
    }
}

impl Pack {
    /// What was packed, if it is whole. `ready` may have the bytes of the file, by their SHA-256.
    pub(super) fn unpack(
        &self,
        origin: &Origin,
        ready: impl FnOnce(&[u8; 32]) -> Option<Bytes>,
    ) -> Option<(Knowledge, Blobs)> {
        let file = self.file.as_deref();
        let bytes = usize::try_from(self.bytes).ok()?;
        let text = inflate(&self.facts, &dictionary(origin, file), bytes)?;
        let (mut knowledge, mut blobs) = facts::read(&text, file.map(|file| Digest(file.sha256)))?;
        knowledge.site_up = self.site_up;
        if let Some(file) = file {
            let body = ready(&file.sha256).or_else(|| file.body())?;
            blobs.insert(Digest(file.sha256), body);
        }
        Some((knowledge, blobs))
    }

    /// Whether both were made in one go: a later one of the same origin is another.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.facts, &other.facts)
    }

    /// How long it is unpacked.
    pub(super) fn bytes(&self) -> usize {
        let file = self.file.as_ref().map_or(0, |file| file.bytes());
        file.saturating_add(usize::try_from(self.bytes).unwrap_or(usize::MAX))
    }

    /// How long it is, without the file.
    pub(super) fn bytes_packed(&self) -> usize {
        self.facts.len()
    }
}

/// Whoever unpacks knows the origin and the file, so nothing needs to be said of them again.
fn dictionary(origin: &Origin, file: Option<&PackedFile>) -> Vec<u8> {
    let sha256 = file.map_or_else(String::new, |file| hex(&file.sha256));
    [DICTIONARY, sha256.as_bytes(), origin.to_string().as_bytes()].concat()
}
