//! The write queue, one change per origin. Bounded: when it is full the oldest change is dropped,
//! because no request may wait for a disk.

use std::collections::HashMap;
use std::sync::Arc;

use lru::LruCache;

use super::super::entry::Entry;
use crate::store::limits::STORE_BATCH_MAX;
use crate::types::origin::Origin;

/// Origins whose persisted waits to be written to the store. Of more, the oldest goes unwritten: it
/// is asked for again after a restart.
pub(crate) const STORE_PENDING_MAX: usize = 32_768;

/// A change of an origin's row.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Arc<Entry>),
    Forget,
}

/// Changes in the order of their arrival; a newer change of an origin replaces the older one.
pub(super) struct Pending {
    waiting: LruCache<Origin, Change>,
    /// The bytes of all changes, including those being written.
    bytes: usize,
    bytes_max: usize,
    /// Taken by the writer, and not yet on disk.
    writing: Arc<HashMap<Origin, Change>>,
    /// Changes dropped because the queue was full.
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

    /// The change of `origin` that is newer than the disk.
    pub(super) fn get(&self, origin: &Origin) -> Option<&Change> {
        self.waiting.peek(origin).or_else(|| self.writing.get(origin))
    }

    /// Takes the oldest changes for one transaction, up to `bytes_max`. They remain visible until
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

    /// Marks the batch as written.
    pub(super) fn written(&mut self) {
        let batch = std::mem::take(&mut self.writing);
        self.bytes -= batch.values().map(Change::weight).sum::<usize>();
    }

    /// Returns a failed batch to the queue as its oldest changes, unless newer ones replace them.
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
