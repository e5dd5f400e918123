//! The entries in memory, bounded by number and by bytes; the least recently used is evicted first.
//! What several entries share is counted once.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, MutexGuard, Weak};

use bytes::Bytes;
use lru::LruCache;

use super::entry::Entry;
use crate::policy::access::{AccessResult, CompletedFetch, Snapshot};
use crate::robots::{Dialect, RobotsTxt};
use crate::runtime::lock::Lock;
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

// One copy of each file, and one parsed robots.txt per file and dialect, shared by all origins
// that serve it: files repeat (the hundred most frequent make up almost half of all fetches).

/// SHA-256 of the file, and a hash of the dialect. Hashes may collide, so a hit is compared.
type Key = ([u8; 32], u64);

#[derive(Debug, Default)]
pub(super) struct ParseCache {
    table: Lock<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Weak: only entries keep a parsed file alive.
    files: HashMap<Key, Weak<RobotsTxt>>,
    bodies: HashMap<[u8; 32], Weak<Body>>,
    sweep_at: usize,
}

/// The bytes of a file, keyed by their SHA-256.
#[derive(Debug)]
struct Body(Box<[u8]>);

/// The bytes as a snapshot holds them.
struct MemoryPermit(Arc<Body>);

impl AsRef<[u8]> for MemoryPermit {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl ParseCache {
    pub(super) fn read(&self, snapshot: &Snapshot, dialect: &Dialect) -> Arc<RobotsTxt> {
        let dialect = dialect.for_length(snapshot.body.len(), snapshot.cut);
        let key = (snapshot.sha256, hash(&dialect));
        if let Some(known) = self.table().find(&key, &dialect) {
            return known;
        }
        // Parses without the lock: a large file takes milliseconds. Two threads may do it at once;
        // one result is kept.
        let read = Arc::new(RobotsTxt::parse(&snapshot.body, &dialect));
        self.table().keep(key, read)
    }

    /// The fetch, with the file's bytes shared with other entries.
    pub(super) fn shared(&self, mut fetched: CompletedFetch) -> CompletedFetch {
        if let AccessResult::Successful { snapshot, .. } = &mut fetched.result {
            let snapshot = Arc::make_mut(snapshot);
            snapshot.body = self.share(snapshot.sha256, &snapshot.body);
        }
        fetched
    }

    /// The bytes, shared with other entries.
    pub(super) fn share(&self, sha256: [u8; 32], body: &Bytes) -> Bytes {
        let mut table = self.table();
        let known = table.body(&sha256);
        Bytes::from_owner(MemoryPermit(known.unwrap_or_else(|| {
            // Copied to their exact length: the read buffer may be longer.
            let body = Arc::new(Body(body.as_ref().into()));
            table.sweep();
            table.bodies.insert(sha256, Arc::downgrade(&body));
            body
        })))
    }

    /// The number of parsed files in use.
    pub(super) fn len(&self) -> usize {
        self.table().files.values().filter(|file| file.strong_count() > 0).count()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    fn keep(&mut self, key: Key, read: Arc<RobotsTxt>) -> Arc<RobotsTxt> {
        if let Some(known) = self.find(&key, read.dialect()) {
            return known;
        }
        self.sweep();
        self.files.insert(key, Arc::downgrade(&read));
        read
    }

    fn find(&self, key: &Key, dialect: &Dialect) -> Option<Arc<RobotsTxt>> {
        self.files.get(key).and_then(Weak::upgrade).filter(|known| known.dialect() == dialect)
    }

    fn body(&self, sha256: &[u8; 32]) -> Option<Arc<Body>> {
        self.bodies.get(sha256).and_then(Weak::upgrade)
    }

    /// Removes dead entries. At most an eighth of the table is dead.
    fn sweep(&mut self) {
        if self.files.len() + self.bodies.len() >= self.sweep_at {
            self.files.retain(|_, file| file.strong_count() > 0);
            self.bodies.retain(|_, body| body.strong_count() > 0);
            let held = self.files.len() + self.bodies.len();
            self.sweep_at = held + (held / 8).max(64);
        }
    }
}

fn hash(dialect: &Dialect) -> u64 {
    let mut hasher = DefaultHasher::new();
    dialect.hash(&mut hasher);
    hasher.finish()
}
