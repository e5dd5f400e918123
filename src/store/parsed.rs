//! One parsed robots.txt per content and dialect, shared by all origins that serve it: contents
//! repeat (the hundred most frequent make up almost half of all fetches).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::policy::access::Snapshot;
use crate::robots::{Dialect, RobotsTxt};

type Key = ([u8; 32], Dialect);

#[derive(Debug, Default)]
pub(super) struct Parsed {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Held by the entries alone, so that what no entry uses goes with the last of them.
    files: HashMap<Key, Weak<RobotsTxt>>,
    sweep_at: usize,
}

impl Parsed {
    pub(super) fn read(&self, snapshot: &Snapshot, dialect: &Dialect) -> Arc<RobotsTxt> {
        let dialect = as_far_as_known(snapshot.cut, snapshot.body.len(), dialect);
        let key = (snapshot.sha256, dialect.clone());
        if let Some(known) = self.table().files.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        // Without the lock: a large file takes milliseconds. Two may do it at once; one is kept.
        let read = Arc::new(RobotsTxt::parse(&snapshot.body, &dialect));
        self.table().keep(key, read)
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
        if let Some(known) = self.files.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        if self.files.len() >= self.sweep_at {
            self.files.retain(|_, file| file.strong_count() > 0);
            self.sweep_at = (2 * self.files.len()).max(64);
        }
        self.files.insert(key, Arc::downgrade(&read));
        read
    }
}

/// Of a file that was not downloaded to its end, the last octet only tells whether the line before
/// it is whole (D-SIZE): a limit just below it makes the parser drop the line that was cut.
pub fn as_far_as_known(cut: bool, octets: usize, dialect: &Dialect) -> Dialect {
    let known = if cut { octets.saturating_sub(1) } else { usize::MAX };
    Dialect { size_limit: dialect.size_limit.min(known), ..dialect.clone() }
}
