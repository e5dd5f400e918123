//! Entries in memory, least recently used first to go; bounded by number and by octets.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::entry::Entry;
use crate::limits::{STORE_BETWEEN_PIECES, STORE_SHARED_OCTETS};
use crate::origin::Origin;

pub(super) struct Cache {
    entries: LruCache<Origin, Arc<Entry>>,
    /// How many times the entries have each piece that they may share: it counts once.
    shared: HashMap<usize, u32>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(entries_max: NonZeroUsize, bytes_max: usize) -> Self {
        // Sparse: the memory for a hundred thousand entries is not taken before they come.
        Self { entries: LruCache::sparse(entries_max), shared: HashMap::new(), bytes: 0, bytes_max }
    }

    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.get(origin)
    }

    /// Without counting as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.peek(origin)
    }

    pub(super) fn remove(&mut self, origin: &Origin) {
        if let Some(gone) = self.entries.pop(origin) {
            self.discount(&gone);
        }
    }

    /// Other bounds, which hold at once.
    pub(super) fn resize(&mut self, entries_max: NonZeroUsize, bytes_max: usize) {
        while self.entries.len() > entries_max.get() {
            self.pop();
        }
        self.entries.resize(entries_max);
        self.bytes_max = bytes_max;
        self.shrink();
    }

    /// An entry larger than the whole cache is not kept at all.
    pub(super) fn put(&mut self, origin: &Origin, entry: Arc<Entry>) {
        self.count(&entry);
        // `push` returns what had to go: the origin's own old entry, or the least recently used.
        if let Some((_, gone)) = self.entries.push(origin.clone(), entry) {
            self.discount(&gone);
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes() > self.bytes_max && self.pop() {}
    }

    /// The least recently used goes: whether there was one.
    fn pop(&mut self) -> bool {
        let gone = self.entries.pop_lru();
        if let Some((_, gone)) = &gone {
            self.discount(gone);
        }
        gone.is_some()
    }

    fn count(&mut self, entry: &Entry) {
        self.bytes += entry.own_weight();
        for piece in entry.shared() {
            let uses = self.shared.entry(piece.place).or_default();
            if *uses == 0 {
                self.bytes += piece.octets + STORE_SHARED_OCTETS;
            }
            *uses += 1;
        }
    }

    fn discount(&mut self, entry: &Entry) {
        self.bytes -= entry.own_weight();
        for piece in entry.shared() {
            let Some(uses) = self.shared.get_mut(&piece.place) else { continue };
            *uses -= 1;
            if *uses == 0 {
                self.shared.remove(&piece.place);
                self.bytes -= piece.octets + STORE_SHARED_OCTETS;
            }
        }
    }

    /// Puts `new` in the place of `old`, if that is still what is there: whether it was.
    pub(super) fn replace(&mut self, origin: &Origin, old: &Arc<Entry>, new: Arc<Entry>) -> bool {
        let is_there = self.entries.peek(origin).is_some_and(|entry| Arc::ptr_eq(entry, old));
        if is_there {
            self.put(origin, new);
        }
        is_there
    }

    /// What `change` made of the entry, if anything.
    pub(super) fn update(
        &mut self,
        origin: &Origin,
        change: impl FnOnce(&Entry) -> Option<Entry>,
    ) -> Option<Arc<Entry>> {
        let changed = Arc::new(self.entries.peek(origin).and_then(|entry| change(entry))?);
        self.put(origin, Arc::clone(&changed));
        Some(changed)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// With what the allocator leaves free between pieces of all sizes that come and go.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes + self.bytes / STORE_BETWEEN_PIECES
    }
}
