//! Entries in memory, least recently used first to go; bounded by number and by octets.

use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use super::entry::Entry;
use crate::origin::Origin;

pub(super) struct Cache {
    entries: LruCache<Origin, Arc<Entry>>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(entries_max: NonZeroUsize, bytes_max: usize) -> Self {
        // Sparse: the memory for a hundred thousand entries is not taken before they come.
        Self { entries: LruCache::sparse(entries_max), bytes: 0, bytes_max }
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
            self.bytes -= gone.weight();
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
        self.bytes += entry.weight();
        // `push` returns what had to go: the origin's own old entry, or the least recently used.
        if let Some((_, gone)) = self.entries.push(origin.clone(), entry) {
            self.bytes -= gone.weight();
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.bytes > self.bytes_max && self.pop() {}
    }

    /// The least recently used goes: whether there was one.
    fn pop(&mut self) -> bool {
        let gone = self.entries.pop_lru();
        self.bytes -= gone.as_ref().map_or(0, |(_, gone)| gone.weight());
        gone.is_some()
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

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
