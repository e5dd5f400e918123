//! One copy of each file, and one parsed robots.txt per file and dialect, shared by all origins
//! that serve it: files repeat (the hundred most frequent make up almost half of all fetches).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, MutexGuard, Weak};

use bytes::Bytes;

use crate::policy::access::{AccessResult, CompletedFetch, Snapshot};
use crate::robots::{Dialect, RobotsTxt};
use crate::runtime::lock::Lock;

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
