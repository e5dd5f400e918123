//! What is known of origins beyond memory and restarts: one database file, for one process.
//!
//! Promises: no request waits for a write, and none for a read longer than it would for an origin;
//! a file that cannot be used is said, counted, and done without; what comes back is what was
//! written, or nothing. A killed process, and a power cut, lose what changed in the last moment
//! ([`STORE_BATCH_WAIT`] and one transaction): those origins are asked again, which is all.

mod blob;
mod file;
#[cfg(test)]
pub(super) mod fixture;
mod health;
mod migrate;
mod offline;
mod pending;
mod survey;
mod tables;
mod trouble;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::entry::Entry;
use super::knowledge::Knowledge;
use super::restore::Blobs;
use crate::clock::Clock;
use crate::limits::{
    STORE_BATCH_WAIT, STORE_CLOSE_TIMEOUT, STORE_LOAD_TIMEOUT, STORE_LOADS_MAX, STORE_RETRY,
};
use crate::origin::Origin;
use file::{DatabaseFile, Row};
pub use health::Health;
pub use offline::Offline;
use pending::{Change, Pending};
pub use survey::{Each, Stats};
pub use trouble::OpenError;
use trouble::{Trouble, guarded};

/// The file's name in the state directory.
pub const FILE_NAME: &str = "store.redb";

#[derive(Clone, Debug)]
pub struct Config {
    pub path: PathBuf,
    /// Octets of the file. Who was not written for the longest time goes first.
    pub size_max: u64,
    /// How long a file that failed is left alone.
    pub retry: Duration,
}

impl Config {
    /// The defaults, at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, size_max: 1 << 30, retry: STORE_RETRY }
    }
}

/// The database and its writer. Dropping it writes what waits, within a deadline.
pub struct Disk {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What requests and the writer share.
struct Shared {
    config: Config,
    clock: Arc<dyn Clock>,
    desk: Mutex<Desk>,
    /// Told of everything that happens on the desk.
    changed: Condvar,
    loads: Arc<Semaphore>,
}

/// What the lock guards. It is held for moments, never while the disk works.
struct Desk {
    /// None while the file cannot be used.
    file: Option<Arc<DatabaseFile>>,
    pending: Pending,
    health: Health,
    /// Whether trying again can help.
    is_hopeless: bool,
    /// Somebody waits until nothing is pending.
    is_hurried: bool,
    is_closing: bool,
    has_ended: bool,
}

/// What the disk knows of an origin.
pub(super) enum Found {
    /// Not written yet.
    Waiting(Arc<Entry>),
    Kept(Box<Knowledge>, Blobs),
}

impl Disk {
    /// Opens the file, or begins one. Only a file that another process uses is refused: without a
    /// file that can be used there is no memory beyond the process, and that is said.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            desk: Mutex::new(Desk {
                file: None,
                pending: Pending::new(),
                health: Health { enabled: true, ..Health::default() },
                is_hopeless: false,
                is_hurried: false,
                is_closing: false,
                has_ended: false,
            }),
            changed: Condvar::new(),
            loads: Arc::new(Semaphore::new(STORE_LOADS_MAX)),
            config,
            clock,
        });
        match shared.open_or_begin() {
            Ok(file) => shared.take_up(file),
            Err(Trouble::Locked) => return Err(OpenError::Locked(shared.config.path.clone())),
            Err(trouble) => shared.give_up(None, trouble),
        }
        let writer = {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("store".into());
            thread.spawn(move || shared.write_all())
        };
        let path = &shared.config.path;
        let writer = writer.map_err(|error| Trouble::Io(error.to_string()).at(path.clone()))?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Keeps what is known of `origin`, soon.
    pub(super) fn put(&self, origin: &Origin, entry: &Arc<Entry>) {
        self.shared.change(origin, Change::Put(Arc::clone(entry)));
    }

    pub(super) fn forget(&self, origin: &Origin) {
        self.shared.change(origin, Change::Forget);
    }

    /// Looks for `origin`, on a thread that serves nobody, and lets `make` something of what is
    /// found there. Nothing where it cannot be had in time.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        origin: &Origin,
        make: impl FnOnce(Found) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (shared, origin) = (Arc::clone(&self.shared), origin.clone());
        let looked = async {
            let turn = Arc::clone(&self.shared.loads).acquire_owned().await.ok()?;
            let look = move || {
                let made = shared.look(&origin).map(make);
                // Not before the end: who left does not make room for more threads.
                drop(turn);
                match made {
                    // It cannot be what it was made of, so it is not kept either.
                    Some(None) => {
                        shared.drop_broken(&origin);
                        None
                    }
                    made => made.flatten(),
                }
            };
            tokio::task::spawn_blocking(look).await.ok()?
        };
        tokio::time::timeout(STORE_LOAD_TIMEOUT, looked).await.ok()?
    }

    /// Waits until all is written, or cannot be, or the time is over: whether all is.
    pub fn flush(&self, wait: Duration) -> bool {
        let mut desk = self.shared.desk();
        desk.is_hurried = true;
        self.shared.changed.notify_all();
        let unsettled = |desk: &mut Desk| !desk.pending.is_settled() && desk.file.is_some();
        let waited = self.shared.changed.wait_timeout_while(desk, wait, unsettled);
        let (mut desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        desk.is_hurried = false;
        desk.pending.is_settled()
    }

    pub fn health(&self) -> Health {
        let desk = self.shared.desk();
        Health {
            pending: desk.pending.len() as u64,
            dropped: desk.pending.dropped,
            file_bytes: desk.file.as_ref().map_or(0, |file| file.octets()),
            ..desk.health.clone()
        }
    }

    /// Writes what waits, within the deadline, and lets go of the file. Nothing is kept after it.
    pub fn close(&self) {
        let mut desk = self.shared.desk();
        desk.is_closing = true;
        self.shared.changed.notify_all();
        let waiting = |desk: &mut Desk| !desk.has_ended;
        let waited = self.shared.changed.wait_timeout_while(desk, STORE_CLOSE_TIMEOUT, waiting);
        let (desk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let has_ended = desk.has_ended;
        drop(desk);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        match writer {
            Some(writer) if has_ended => {
                // It has nothing left to do but to return.
                let _ = writer.join();
            }
            Some(_) => tracing::error!("the store did not take what was still to be written in time"),
            None => {}
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("path", &self.shared.config.path).finish_non_exhaustive()
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Nothing under the lock leaves the desk half changed.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, origin: &Origin, change: Change) {
        let mut desk = self.desk();
        if !desk.is_closing {
            desk.pending.put(origin, change);
            drop(desk);
            self.changed.notify_all();
        }
    }

    fn look(&self, origin: &Origin) -> Option<Found> {
        let file = {
            let mut desk = self.desk();
            desk.health.loads += 1;
            match desk.pending.get(origin) {
                Some(Change::Put(entry)) => {
                    let entry = Arc::clone(entry);
                    desk.health.load_hits += 1;
                    return Some(Found::Waiting(entry));
                }
                Some(Change::Forget) => return None,
                None => Arc::clone(desk.file.as_ref()?),
            }
        };
        match guarded(|| file.read(&origin.to_string())) {
            Ok(None) => None,
            Ok(Some(Row::Kept(knowledge, blobs))) => {
                self.desk().health.load_hits += 1;
                Some(Found::Kept(knowledge, blobs))
            }
            Ok(Some(Row::Broken)) => {
                self.drop_broken(origin);
                None
            }
            Err(trouble) => {
                self.give_up(Some(&file), trouble);
                None
            }
        }
    }

    /// Unless something newer is about to replace it.
    fn drop_broken(&self, origin: &Origin) {
        let mut desk = self.desk();
        desk.health.broken += 1;
        if desk.pending.get(origin).is_none() {
            desk.pending.put(origin, Change::Forget);
        }
        drop(desk);
        tracing::warn!(%origin, "what the store kept of it does not hold, and is dropped");
    }

    /// From now on the file is used.
    fn take_up(&self, file: DatabaseFile) {
        let totals = guarded(|| file.totals()).unwrap_or_default();
        let mut desk = self.desk();
        desk.file = Some(Arc::new(file));
        (desk.health.entries, desk.health.bytes) = (totals.entries, totals.octets);
        if desk.health.failing.take().is_some() {
            tracing::info!("the store {} can be used again", self.config.path.display());
        }
    }

    /// From now on it is not, if it still is `file`.
    fn give_up(&self, file: Option<&Arc<DatabaseFile>>, trouble: Trouble) {
        let mut desk = self.desk();
        if let (Some(failed), Some(used)) = (file, &desk.file)
            && !Arc::ptr_eq(failed, used)
        {
            return;
        }
        let used = desk.file.take();
        desk.health.errors += 1;
        desk.is_hopeless = matches!(trouble, Trouble::Newer(_));
        let error = trouble.at(self.config.path.clone());
        if desk.health.failing.replace(error.to_string()).is_none() {
            tracing::error!("{error}; what is known of origins is kept in memory only");
        }
        drop(desk);
        self.changed.notify_all();
        // What is wrong with the file may also show when it is closed.
        let _ = guarded(|| {
            drop(used);
            Ok(())
        });
    }
}
