//! The ready tier and its size. What several entries share is counted once.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::super::entry::Entry;
use crate::types::origin::Origin;

pub(super) struct ReadyTier {
    entries: LruCache<Origin, Arc<Entry>>,
    /// The number of entries that hold each shared allocation.
    shared: HashMap<usize, u32>,
    bytes: usize,
}

impl ReadyTier {
    pub(super) fn new() -> Self {
        Self { entries: LruCache::unbounded(), shared: HashMap::new(), bytes: 0 }
    }

    pub(super) fn get(&mut self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.get(origin)
    }

    /// The entry of `origin`; does not count as a use.
    pub(super) fn peek(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.entries.peek(origin)
    }

    /// The least recently used entry.
    pub(super) fn oldest(&self) -> Option<(&Origin, &Arc<Entry>)> {
        self.entries.peek_lru()
    }

    pub(super) fn put(&mut self, origin: &Origin, entry: Arc<Entry>) {
        self.count(&entry);
        if let Some((_, former)) = self.entries.push(origin.clone(), entry) {
            self.discount(&former);
        }
    }

    pub(super) fn remove(&mut self, origin: &Origin) -> Option<Arc<Entry>> {
        let gone = self.entries.pop(origin)?;
        self.discount(&gone);
        Some(gone)
    }

    /// Evicts the least recently used. Returns whether there was one.
    pub(super) fn pop(&mut self) -> bool {
        let gone = self.entries.pop_lru();
        if let Some((_, gone)) = &gone {
            self.discount(gone);
        }
        gone.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn count(&mut self, entry: &Entry) {
        self.bytes += entry.own_weight();
        for piece in entry.shared() {
            let uses = self.shared.entry(piece.place).or_default();
            if *uses == 0 {
                self.bytes += piece.weight();
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
                self.bytes -= piece.weight();
            }
        }
    }
}
