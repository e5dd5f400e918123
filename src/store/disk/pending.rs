//! What waits to be written, an origin once. Bounded: where there is no room the oldest is let go,
//! for nobody may wait for a disk.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::super::entry::Entry;
use crate::store::limits::STORE_BATCH_MAX;
use crate::types::origin::Origin;

/// Origins whose knowledge waits to be written to the store. Of more, the oldest goes unwritten: it
/// is asked for again after a restart.
pub(crate) const STORE_PENDING_MAX: usize = 32_768;

/// What becomes of an origin's row.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Arc<Entry>),
    Forget,
}

/// The changes, in the order in which they came; the last one of an origin counts.
pub(super) struct Pending {
    waiting: LruCache<Origin, Change>,
    /// What all of them take, those that are being written included.
    bytes: usize,
    bytes_max: usize,
    /// Taken by the writer, and not on the disk yet.
    writing: Arc<HashMap<Origin, Change>>,
    pub dropped: u64,
}

impl Change {
    fn weight(&self) -> usize {
        match self {
            Self::Put(entry) => entry.weight(),
            Self::Forget => 0,
        }
    }
}

impl Pending {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: LruCache::unbounded(),
            bytes: 0,
            bytes_max,
            writing: Arc::default(),
            dropped: 0,
        }
    }

    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.bound();
    }

    pub(super) fn put(&mut self, origin: &Origin, change: Change) {
        self.bytes += change.weight();
        if let Some((_, replaced)) = self.waiting.push(origin.clone(), change) {
            self.bytes -= replaced.weight();
        }
        self.bound();
    }

    /// What is newer than the disk.
    pub(super) fn get(&self, origin: &Origin) -> Option<&Change> {
        self.waiting.peek(origin).or_else(|| self.writing.get(origin))
    }

    /// The oldest, for one transaction: until they weigh `bytes_max`. They stay visible until
    /// [`Self::written`].
    pub(super) fn take(&mut self, bytes_max: usize) -> Arc<HashMap<Origin, Change>> {
        let (mut batch, mut bytes) = (HashMap::new(), 0);
        while batch.len() < STORE_BATCH_MAX && bytes < bytes_max {
            let Some((origin, change)) = self.waiting.pop_lru() else { break };
            bytes += change.weight();
            batch.insert(origin, change);
        }
        self.writing = Arc::new(batch);
        Arc::clone(&self.writing)
    }

    /// The batch is on the disk.
    pub(super) fn written(&mut self) {
        let batch = std::mem::take(&mut self.writing);
        self.bytes -= batch.values().map(Change::weight).sum::<usize>();
    }

    /// The batch is not: what nothing newer replaces waits again, as the oldest.
    pub(super) fn put_back(&mut self) {
        let batch = std::mem::take(&mut self.writing);
        for (origin, change) in batch.iter() {
            if self.waiting.contains(origin) {
                self.bytes -= change.weight();
            } else {
                self.waiting.push(origin.clone(), change.clone());
                self.waiting.demote(origin);
            }
        }
        self.bound();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty()
    }

    fn bound(&mut self) {
        while self.waiting.len() > STORE_PENDING_MAX || self.bytes > self.bytes_max {
            let Some((_, dropped)) = self.waiting.pop_lru() else { break };
            self.bytes -= dropped.weight();
            self.dropped += 1;
        }
    }
}
