//! One copy of a content, and one parsed robots.txt per content and dialect, shared by all origins that
//! serve it: contents repeat (the hundred most frequent make up almost half of all fetches).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::policy::access::{AccessResult, Fetched, Snapshot};
use crate::robots::{Dialect, RobotsTxt};

/// SHA-256 of the content, and a hash of the dialect. It is no promise: who finds a file compares.
type Key = ([u8; 32], u64);

#[derive(Debug, Default)]
pub(super) struct Parsed {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Held by the entries alone, so that what no entry uses goes with the last of them.
    files: HashMap<Key, Weak<RobotsTxt>>,
    bodies: HashMap<[u8; 32], Weak<Body>>,
    sweep_at: usize,
}

/// The bytes of a file, whose name is their SHA-256.
#[derive(Debug)]
struct Body(Box<[u8]>);

/// A body as a snapshot holds it.
struct Held(Arc<Body>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0.0
    }
}

impl Parsed {
    pub(super) fn read(&self, snapshot: &Snapshot, dialect: &Dialect) -> Arc<RobotsTxt> {
        let dialect = dialect.for_length(snapshot.body.len(), snapshot.cut);
        let key = (snapshot.sha256, hash(&dialect));
        if let Some(known) = self.table().find(&key, &dialect) {
            return known;
        }
        // Without the lock: a large file takes milliseconds. Two may do it at once; one is kept.
        let read = Arc::new(RobotsTxt::parse(&snapshot.body, &dialect));
        self.table().keep(key, read)
    }

    /// The same attempt, the bytes of its file shared with whoever has them already.
    pub(super) fn shared(&self, mut fetched: Fetched) -> Fetched {
        if let AccessResult::Successful { snapshot, .. } = &mut fetched.result {
            let snapshot = Arc::make_mut(snapshot);
            snapshot.body = self.share(snapshot.sha256, &snapshot.body);
        }
        fetched
    }

    /// The same bytes, shared with whoever has them already.
    pub(super) fn share(&self, sha256: [u8; 32], body: &Bytes) -> Bytes {
        let mut table = self.table();
        let known = table.body(&sha256);
        Bytes::from_owner(Held(known.unwrap_or_else(|| {
            // Of its own length: what it was read into may be longer.
            let body = Arc::new(Body(body.as_ref().into()));
            table.sweep();
            table.bodies.insert(sha256, Arc::downgrade(&body));
            body
        })))
    }

    /// The bytes of that name, where an entry that is ready has them.
    pub(super) fn body(&self, sha256: &[u8; 32]) -> Option<Bytes> {
        let known = self.table().body(sha256);
        known.map(|body| Bytes::from_owner(Held(body)))
    }

    /// How many files are in use.
    pub(super) fn len(&self) -> usize {
        self.table().files.values().filter(|file| file.strong_count() > 0).count()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// What nobody holds still takes its place here; that is never more than an eighth.
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
