//! The entries in memory, bounded by number and by bytes; the least recently used is evicted first.
//! What several entries share is counted once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::entry::Entry;
use crate::types::origin::Origin;

/// One byte in so many is free between allocations of mixed sizes, as `benches/memory.rs` shows
/// after many evictions.
const STORE_BETWEEN_PIECES: usize = 32;

/// The entries in memory.
pub(super) struct Memory {
    entries: LruCache<Origin, Arc<Entry>>,
    /// The number of entries that hold each shared allocation.
    shared: HashMap<usize, u32>,
    /// Bytes of all entries, without what is free between them.
    counted: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl Memory {
    pub(super) fn new(entries_max: NonZeroUsize, bytes_max: usize) -> Self {
        Self {
            entries: LruCache::unbounded(),
            shared: HashMap::new(),
            counted: 0,
            entries_max: entries_max.get(),
            bytes_max,
        }
    }

    /// The entry of `origin`; counts as a use.
    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.get(origin)
    }

    /// The entry of `origin`; does not count as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.peek(origin)
    }

    /// Stores an entry, and evicts others for it. One that is larger than the whole bound is not
    /// stored.
    pub(super) fn put(&mut self, origin: &Origin, entry: Arc<Entry>) {
        if with_gaps(entry.own_weight_and_shared()) > self.bytes_max {
            self.remove(origin);
            return;
        }
        self.count(&entry);
        if let Some((_, former)) = self.entries.push(origin.clone(), entry) {
            self.discount(&former);
        }
        self.shrink();
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        if let Some(gone) = self.entries.pop(origin) {
            self.discount(&gone);
        }
    }

    /// Applies new bounds at once.
    pub(super) fn resize(&mut self, entries_max: NonZeroUsize, bytes_max: usize) {
        (self.entries_max, self.bytes_max) = (entries_max.get(), bytes_max);
        self.shrink();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all entries, and of what is free between them.
    pub(super) const fn bytes(&self) -> usize {
        with_gaps(self.counted)
    }

    fn shrink(&mut self) {
        while self.bytes() > self.bytes_max || self.len() > self.entries_max {
            let Some((_, gone)) = self.entries.pop_lru() else { return };
            self.discount(&gone);
        }
    }

    fn count(&mut self, entry: &Entry) {
        self.counted += entry.own_weight();
        for piece in entry.shared() {
            let uses = self.shared.entry(piece.place).or_default();
            if *uses == 0 {
                self.counted += piece.weight();
            }
            *uses += 1;
        }
    }

    fn discount(&mut self, entry: &Entry) {
        self.counted -= entry.own_weight();
        for piece in entry.shared() {
            let Some(uses) = self.shared.get_mut(&piece.place) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.shared.remove(&piece.place);
                self.counted -= piece.weight();
            }
        }
    }
}

/// Adds the fragmentation that the allocator causes with allocations of mixed sizes.
const fn with_gaps(bytes: usize) -> usize {
    bytes + bytes / STORE_BETWEEN_PIECES
}
