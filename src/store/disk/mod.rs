//! What is known of origins beyond memory and restarts: one database file, for one process.
//!
//! Promises: no request waits for a write, and none for a read longer than it would for an origin;
//! a disk that does not answer is not asked again until it does; a file that cannot be used is said, counted, and done without; what comes back is what was
//! written, or nothing. A killed process, and a power cut, lose what changed in the last moment
//! (`STORE_BATCH_WAIT`, and one transaction): those origins are
//! asked again, which is all.

mod blob;
mod file;
#[cfg(test)]
pub(super) mod fixture;
mod health;
mod migrate;
mod offline;
pub(crate) mod pending;
mod shared;
mod survey;
mod tables;
mod trouble;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::entry::Entry;
use super::knowledge::Knowledge;
use super::restore::Blobs;
use crate::clients::Key;
use crate::runtime::clock::Clock;
use crate::store::limits::{STORE_CLOSE_TIMEOUT, STORE_PENDING_BYTES_MAX};
use crate::types::origin::Origin;
pub use health::Health;
pub use offline::Offline;
use pending::Change;
use shared::{Desk, Shared};
pub use survey::{Each, Stats};
pub use trouble::OpenError;
use trouble::Trouble;

/// How long a request's flight waits for the store before it asks the origin instead.
const STORE_LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a store that failed is left alone before it is opened again.
const STORE_RETRY: Duration = Duration::from_secs(60);

/// The file's name in the state directory.
pub const FILE_NAME: &str = "store.redb";

#[derive(Clone, Debug)]
pub struct Config {
    pub path: PathBuf,
    /// Bytes of the file. Who was not written for the longest time goes first.
    pub size_max: u64,
    /// Bytes of memory for what waits to be written.
    pub pending_max: usize,
    /// How long a file that failed is left alone.
    pub retry: Duration,
}

impl Config {
    /// The defaults, at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, size_max: 1 << 30, pending_max: STORE_PENDING_BYTES_MAX, retry: STORE_RETRY }
    }
}

/// The database and its writer. Dropping it writes what waits, within a deadline.
pub struct Disk {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
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
        let shared = Arc::new(Shared::new(config, clock));
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

    /// Other bounds: for the file, and for what waits to be written to it, in bytes. What is beyond
    /// them goes soon.
    pub fn resize(&self, size_max: u64, pending_max: usize) {
        self.shared.resize(size_max, pending_max);
    }

    /// Keeps what is known of `origin`, soon.
    pub(super) fn put(&self, origin: &Origin, entry: &Arc<Entry>) {
        self.shared.change(origin, Change::Put(Arc::clone(entry)));
    }

    pub(super) fn forget(&self, origin: &Origin) {
        self.shared.change(origin, Change::Forget);
    }

    /// Looks for `origin` in `client`'s turn, on a thread that serves nobody, and lets `make` something of
    /// what is found there. Nothing where it cannot be had in time.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        origin: &Origin,
        client: &Key,
        make: impl FnOnce(Found) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        if self.shared.hangs() {
            // What is not written yet is in memory.
            return self.shared.waiting(origin).and_then(make);
        }
        let (shared, origin) = (Arc::clone(&self.shared), origin.clone());
        let looked = async {
            let turn = self.shared.loads.acquire(client).await;
            let look = move || {
                let made = shared.look(&origin).map(make);
                shared.answers();
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
        tokio::time::timeout(STORE_LOAD_TIMEOUT, looked).await.unwrap_or_else(|_| {
            self.shared.does_not_answer();
            None
        })
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
            file_bytes: desk.file.as_ref().map_or(0, |file| file.bytes()),
            failing: desk.health.failing.clone().or_else(|| self.shared.hangs().then(no_answer)),
            ..desk.health.clone()
        }
    }

    /// Writes what waits, within the deadline, and lets go of the file. Nothing is kept after it.
    pub fn close(&self) {
        if self.writer.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return;
        }
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
            Some(_) => {
                tracing::error!("the store did not take what was still to be written in time")
            }
            None => {}
        }
    }
}

/// What is said of a disk that does not answer.
fn no_answer() -> String {
    format!("the disk has not answered for {STORE_LOAD_TIMEOUT:?}")
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
