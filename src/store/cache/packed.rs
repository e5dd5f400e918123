//! The compressed tier and its size. A file is stored once for all origins that serve it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use lru::LruCache;

use super::super::pack::{Pack, PackedFile};
use crate::types::origin::{Host, Origin};

/// Bytes that a shared allocation takes for the counts of those who share it, and a place in a list for
/// its neighbours.
const STORE_ARC_BYTES: usize = 16;
const STORE_LINKS_BYTES: usize = 16;

/// Bytes that a row of two words takes in a table that is between half full and full.
const STORE_ROW_BYTES: usize = 32;

pub(super) struct Packed {
    packs: LruCache<Origin, Pack>,
    /// The number of origins that have each file.
    files: HashMap<Named, u32>,
    bytes: usize,
    /// The number of those whose origin is ready as well.
    open: usize,
}

/// A file, keyed by its SHA-256.
struct Named(Arc<PackedFile>);

impl Packed {
    pub(super) fn new() -> Self {
        Self { packs: LruCache::unbounded(), files: HashMap::new(), bytes: 0, open: 0 }
    }

    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Pack> {
        self.packs.get(origin)
    }

    /// The compressed form of `origin`; does not count as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Pack> {
        self.packs.peek(origin)
    }

    /// The compressed file with this SHA-256, if there is one.
    pub(super) fn file(&self, sha256: &[u8; 32]) -> Option<&Arc<PackedFile>> {
        self.files.get_key_value(sha256).map(|(Named(file), _)| file)
    }

    /// Marks the origin as ready, too.
    pub(super) fn open(&mut self, origin: &Origin) {
        let Some(pack) = self.packs.peek_mut(origin) else { return };
        self.open += usize::from(!pack.is_open);
        pack.is_open = true;
    }

    /// Marks the origin as not ready, and as most recently used. Returns whether there is a
    /// compressed form.
    pub(super) fn close(&mut self, origin: &Origin) -> bool {
        let Some(pack) = self.packs.get_mut(origin) else { return false };
        self.open -= usize::from(pack.is_open);
        pack.is_open = false;
        true
    }

    /// Stores it as most recently used.
    pub(super) fn put(&mut self, origin: Origin, mut pack: Pack) {
        pack.file = pack.file.map(|file| self.acquire(file));
        pack.is_open = false;
        self.bytes += weight(&origin, &pack);
        if let Some((origin, former)) = self.packs.push(origin, pack) {
            self.release(&origin, &former);
        }
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        if let Some((origin, gone)) = self.packs.pop_entry(origin) {
            self.release(&origin, &gone);
        }
    }

    /// Evicts the least recently used. Returns whether there was one.
    pub(super) fn pop(&mut self) -> bool {
        let gone = self.packs.pop_lru();
        if let Some((origin, gone)) = &gone {
            self.release(origin, gone);
        }
        gone.is_some()
    }

    /// Records whether the site's pages respond. Returns the compressed form if that changed.
    pub(super) fn note_site(&mut self, origin: &Origin, is_up: bool) -> Option<Pack> {
        let pack = self.packs.peek_mut(origin).filter(|pack| pack.site_up != is_up)?;
        pack.site_up = is_up;
        Some(pack.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.packs.len()
    }

    pub(super) const fn open_len(&self) -> usize {
        self.open
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn acquire(&mut self, file: Arc<PackedFile>) -> Arc<PackedFile> {
        let file = self.file(&file.sha256).cloned().unwrap_or(file);
        let uses = self.files.entry(Named(Arc::clone(&file))).or_default();
        if *uses == 0 {
            self.bytes += file_weight(&file);
        }
        *uses += 1;
        file
    }

    fn release(&mut self, origin: &Origin, pack: &Pack) {
        self.bytes -= weight(origin, pack);
        self.open -= usize::from(pack.is_open);
        let Some(file) = &pack.file else { return };
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
fn weight(origin: &Origin, pack: &Pack) -> usize {
    let name = match origin.host() {
        Host::Name(name) => block(STORE_ARC_BYTES + name.len()),
        Host::V4(_) | Host::V6(_) => 0,
    };
    let node = block(size_of::<Origin>() + size_of::<Pack>() + STORE_LINKS_BYTES);
    node + STORE_ROW_BYTES + name + block(STORE_ARC_BYTES + pack.bytes_packed())
}

/// Bytes of a compressed file.
fn file_weight(file: &PackedFile) -> usize {
    let place = block(STORE_ARC_BYTES + size_of::<PackedFile>());
    place + STORE_ROW_BYTES + block(file.bytes_packed())
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
