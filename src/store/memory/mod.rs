//! The origins in memory, in two tiers: recently used entries that are ready to use, and older ones
//! that are compressed ([`Compressed`]). Both tiers together are bounded by number and by bytes. The
//! least recently used ready entry is compressed first; the least recently used compressed one is
//! evicted first.

mod compressed_tier;
mod ready_tier;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::compressed::{Compressed, CompressedFile};
use super::entry::Entry;
use crate::types::origin::Origin;
use compressed_tier::CompressedTier;
use ready_tier::ReadyTier;

/// One part in so many of the memory for what is known of origins is for those that are ready to answer
/// with, also where those that are compressed could fill all of it. Of a gigabyte, a million origins leave a fifth.
pub(crate) const STORE_READY_SHARE: usize = 6;

/// So large is that part at most, as long as there is room for it: of what it loses when there is none any
/// more, a third is lost, for what the allocator has cut up for large pieces hardly serves for small ones.
pub(crate) const STORE_READY_SHARE_MOST: usize = 3;

/// One byte in so many is free between the pieces, as `benches/memory.rs` has it after many have come and
/// gone.
const STORE_BETWEEN_PIECES: usize = 32;

/// An origin that has been decompressed keeps its compressed form until something new is learnt, so
/// that it need not be compressed again.
pub(super) struct Memory {
    ready: ReadyTier,
    compressed: CompressedTier,
    entries_max: usize,
    bytes_max: usize,
}

/// An entry to compress.
pub(super) struct Candidate {
    pub(super) origin: Origin,
    pub(super) entry: Arc<Entry>,
    /// Its file in compressed form, if another origin has the same one.
    pub(super) file: Option<Arc<CompressedFile>>,
}

impl Memory {
    pub(super) fn new(entries_max: NonZeroUsize, bytes_max: usize) -> Self {
        Self {
            ready: ReadyTier::new(),
            compressed: CompressedTier::new(),
            entries_max: entries_max.get(),
            bytes_max,
        }
    }

    /// The ready entry of `origin`; counts as a use.
    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.ready.get(origin)
    }

    /// The ready entry of `origin`; does not count as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.ready.peek(origin)
    }

    /// The compressed form of `origin`; does not count as a use.
    pub(super) fn compressed(&self, origin: &Origin) -> Option<&Compressed> {
        self.compressed.peek(origin)
    }

    /// The compressed form of `origin`, to decompress it; counts as a use.
    pub(super) fn use_compressed(&mut self, origin: &Origin) -> Option<Compressed> {
        self.compressed.get(origin).cloned()
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        self.ready.remove(origin);
        self.compressed.remove(origin);
    }

    /// Applies new bounds at once.
    pub(super) fn resize(&mut self, entries_max: NonZeroUsize, bytes_max: usize) {
        (self.entries_max, self.bytes_max) = (entries_max.get(), bytes_max);
        // Otherwise the ready tier would leave no room for compressed entries.
        while self.bytes() > bytes_max
            && held(self.ready.bytes()) > bytes_max / STORE_READY_SHARE_MOST
        {
            let Some((origin, _)) = self.ready.oldest() else { break };
            let origin = origin.clone();
            self.compressed.mark_not_ready(&origin);
            self.ready.remove(&origin);
        }
        self.shrink();
    }

    /// Stores an entry, unless it is larger than the whole cache.
    pub(super) fn put(&mut self, origin: &Origin, entry: Arc<Entry>) {
        self.compressed.remove(origin);
        if self.is_too_large(&entry) {
            self.ready.remove(origin);
        } else {
            self.ready.put(origin, entry);
            self.shrink();
        }
    }

    /// Replaces `old` by `new`, if `old` is still the ready entry. Returns whether it was.
    pub(super) fn replace(&mut self, origin: &Origin, old: &Arc<Entry>, new: Arc<Entry>) -> bool {
        let is_there = self.is_ready(origin, old);
        if is_there {
            self.put(origin, new);
        }
        is_there
    }

    /// Replaces the ready entry by what `change` returns. `None` if there is no entry or no change.
    pub(super) fn update(
        &mut self,
        origin: &Origin,
        change: impl FnOnce(&Entry) -> Option<Entry>,
    ) -> Option<Arc<Entry>> {
        let changed = Arc::new(self.ready.peek(origin).and_then(|entry| change(entry))?);
        self.put(origin, Arc::clone(&changed));
        Some(changed)
    }

    /// Records in the compressed form whether the site's pages respond. Returns it if that changed.
    pub(super) fn note_site_of_compressed(
        &mut self,
        origin: &Origin,
        is_up: bool,
    ) -> Option<Compressed> {
        self.compressed.note_site(origin, is_up)
    }

    /// The next entry to compress before `bytes` more are ready, if any. The ready tier has a fixed
    /// share of the bytes, and a larger one while nothing else needs them.
    pub(super) fn next_to_compress(&mut self, bytes: usize) -> Option<Candidate> {
        while !self.has_room(bytes) {
            let (origin, entry) = self.ready.oldest()?;
            let (origin, entry) = (origin.clone(), Arc::clone(entry));
            if !self.compressed.mark_not_ready(&origin) {
                let file =
                    entry.snapshot().and_then(|snapshot| self.compressed.file(&snapshot.sha256));
                return Some(Candidate { file: file.cloned(), origin, entry });
            }
            self.ready.remove(&origin);
        }
        None
    }

    /// Replaces the entry that `compressed` was made of, if it is still ready.
    pub(super) fn compress(&mut self, made_of: &Candidate, compressed: Compressed) {
        if self.is_ready(&made_of.origin, &made_of.entry) {
            self.ready.remove(&made_of.origin);
            self.compressed.put(made_of.origin.clone(), compressed);
            self.shrink();
        }
    }

    /// Makes `entry`, decompressed from `compressed`, ready, with the newest site status. `None` if
    /// `compressed` is no longer stored.
    pub(super) fn decompress(
        &mut self,
        origin: &Origin,
        compressed: &Compressed,
        entry: &Arc<Entry>,
    ) -> Option<Arc<Entry>> {
        let known = self.compressed.peek(origin).filter(|known| known.is(compressed))?;
        let entry = entry.with_site(known.site_up).map_or_else(|| Arc::clone(entry), Arc::new);
        if !self.is_too_large(&entry) {
            self.compressed.mark_ready(origin);
            self.ready.put(origin, Arc::clone(&entry));
            self.shrink();
        }
        Some(entry)
    }

    /// Removes `compressed`, if it is still stored.
    pub(super) fn drop_compressed(&mut self, origin: &Origin, compressed: &Compressed) {
        if self.is_compressed(origin, compressed) {
            self.compressed.remove(origin);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.compressed_len()
    }

    /// Origins that are compressed only.
    pub(super) fn compressed_len(&self) -> usize {
        self.compressed.len() - self.compressed.ready_len()
    }

    pub(super) const fn bytes(&self) -> usize {
        held(self.ready.bytes() + self.compressed.bytes())
    }

    fn is_ready(&self, origin: &Origin, entry: &Arc<Entry>) -> bool {
        self.ready.peek(origin).is_some_and(|known| Arc::ptr_eq(known, entry))
    }

    pub(super) fn is_compressed(&self, origin: &Origin, compressed: &Compressed) -> bool {
        self.compressed.peek(origin).is_some_and(|known| known.is(compressed))
    }

    fn is_too_large(&self, entry: &Entry) -> bool {
        entry.weight_when_ready() > self.bytes_max
    }

    fn has_room(&self, bytes: usize) -> bool {
        let (ready, max) = (held(self.ready.bytes() + bytes), self.bytes_max);
        let fits = held(self.ready.bytes() + self.compressed.bytes() + bytes) <= max;
        ready <= max / STORE_READY_SHARE
            || ready <= max / STORE_READY_SHARE_MOST && fits
            || bytes > max
    }

    /// An origin that is compressed only was used longer ago than any ready one, so those go first.
    fn shrink(&mut self) {
        let is_full =
            |cache: &Self| cache.bytes() > cache.bytes_max || cache.len() > cache.entries_max;
        while is_full(self) && (self.compressed.pop() || self.ready.pop()) {}
    }
}

/// Adds the fragmentation that the allocator causes with allocations of mixed sizes.
const fn held(bytes: usize) -> usize {
    bytes + bytes / STORE_BETWEEN_PIECES
}
