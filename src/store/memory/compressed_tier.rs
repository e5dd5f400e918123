//! The compressed tier and its size. A file is stored once for all origins that serve it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lru::LruCache;

use super::super::compressed::{Compressed, CompressedFile};
use crate::types::origin::{Host, Origin};

/// Bytes that a shared allocation takes for the counts of those who share it, and a place in a list for
/// its neighbours.
const STORE_ARC_BYTES: usize = 16;
const STORE_LINKS_BYTES: usize = 16;

/// Bytes that a row of two words takes in a table that is between half full and full.
const STORE_ROW_BYTES: usize = 32;

pub(super) struct CompressedTier {
    entries: LruCache<Origin, Compressed>,
    /// The number of origins that have each file.
    files: HashMap<Named, u32>,
    bytes: usize,
    /// The number of those whose origin is ready as well.
    ready: usize,
}

/// A file, keyed by its SHA-256.
struct Named(Arc<CompressedFile>);

impl CompressedTier {
    pub(super) fn new() -> Self {
        Self { entries: LruCache::unbounded(), files: HashMap::new(), bytes: 0, ready: 0 }
    }

    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Compressed> {
        self.entries.get(origin)
    }

    /// The compressed form of `origin`; does not count as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Compressed> {
        self.entries.peek(origin)
    }

    /// The compressed file with this SHA-256, if there is one.
    pub(super) fn file(&self, sha256: &[u8; 32]) -> Option<&Arc<CompressedFile>> {
        self.files.get_key_value(sha256).map(|(Named(file), _)| file)
    }

    /// Marks the origin as ready, too.
    pub(super) fn mark_ready(&mut self, origin: &Origin) {
        let Some(compressed) = self.entries.peek_mut(origin) else { return };
        self.ready += usize::from(!compressed.is_ready);
        compressed.is_ready = true;
    }

    /// Marks the origin as not ready, and as most recently used. Returns whether there is a
    /// compressed form.
    pub(super) fn mark_not_ready(&mut self, origin: &Origin) -> bool {
        let Some(compressed) = self.entries.get_mut(origin) else { return false };
        self.ready -= usize::from(compressed.is_ready);
        compressed.is_ready = false;
        true
    }

    /// Stores it as most recently used.
    pub(super) fn put(&mut self, origin: Origin, mut compressed: Compressed) {
        compressed.file = compressed.file.map(|file| self.acquire(file));
        compressed.is_ready = false;
        self.bytes += weight(&origin, &compressed);
        if let Some((origin, former)) = self.entries.push(origin, compressed) {
            self.release(&origin, &former);
        }
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        if let Some((origin, gone)) = self.entries.pop_entry(origin) {
            self.release(&origin, &gone);
        }
    }

    /// Evicts the least recently used. Returns whether there was one.
    pub(super) fn pop(&mut self) -> bool {
        let gone = self.entries.pop_lru();
        if let Some((origin, gone)) = &gone {
            self.release(origin, gone);
        }
        gone.is_some()
    }

    /// Records whether the site's pages respond. Returns the compressed form if that changed.
    pub(super) fn note_site(&mut self, origin: &Origin, is_up: bool) -> Option<Compressed> {
        let compressed =
            self.entries.peek_mut(origin).filter(|compressed| compressed.site_up != is_up)?;
        compressed.site_up = is_up;
        Some(compressed.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn ready_len(&self) -> usize {
        self.ready
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn acquire(&mut self, file: Arc<CompressedFile>) -> Arc<CompressedFile> {
        let file = self.file(&file.sha256).cloned().unwrap_or(file);
        let uses = self.files.entry(Named(Arc::clone(&file))).or_default();
        if *uses == 0 {
            self.bytes += file_weight(&file);
        }
        *uses += 1;
        file
    }

    fn release(&mut self, origin: &Origin, compressed: &Compressed) {
        self.bytes -= weight(origin, compressed);
        self.ready -= usize::from(compressed.is_ready);
        let Some(file) = &compressed.file else { return };
        let Some(uses) = self.files.get_mut(&file.sha256) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.files.remove(&file.sha256);
            self.bytes -= file_weight(file);
        }
    }
}

impl Borrow<[u8; 32]> for Named {
    fn borrow(&self) -> &[u8; 32] {
        &self.0.sha256
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.sha256.hash(state);
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        self.0.sha256 == other.0.sha256
    }
}

impl Eq for Named {}

/// Bytes of a compressed origin without its file.
fn weight(origin: &Origin, compressed: &Compressed) -> usize {
    let name = match origin.host() {
        Host::Name(name) => block(STORE_ARC_BYTES + name.len()),
        Host::V4(_) | Host::V6(_) => 0,
    };
    let node = block(size_of::<Origin>() + size_of::<Compressed>() + STORE_LINKS_BYTES);
    node + STORE_ROW_BYTES + name + block(STORE_ARC_BYTES + compressed.compressed_bytes())
}

/// Bytes of a compressed file.
fn file_weight(file: &CompressedFile) -> usize {
    let place = block(STORE_ARC_BYTES + size_of::<CompressedFile>());
    place + STORE_ROW_BYTES + block(file.compressed_bytes())
}

/// The size that jemalloc allocates for a request: it has four size classes between powers of two,
/// in multiples of 16.
const fn block(bytes: usize) -> usize {
    let step = bytes.next_power_of_two() / 8;
    bytes.next_multiple_of(if step > 16 { step } else { 16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_up_to_the_sizes_of_the_allocator() {
        let sizes =
            [(0, 0), (1, 16), (80, 80), (81, 96), (128, 128), (129, 160), (640, 640), (641, 768)];
        for (bytes, size) in
            [&sizes[..], &[(1024, 1024), (1025, 1280), (500_000, 524_288)]].concat()
        {
            assert_eq!(block(bytes), size, "{bytes}");
        }
    }
}
