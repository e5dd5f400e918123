//! The store on disk: what is known of origins beyond memory and restarts, in one database file
//! that belongs to one process.
//!
//! Promises: no request waits for a write, and none waits longer for a read than for a fetch; a
//! disk that does not respond gets no further reads until it does; an unusable file is logged,
//! counted, and done without; a read returns what was written, or nothing. A killed process or a
//! power failure loses the changes of the last `STORE_BATCH_WAIT` and one transaction: those
//! origins are fetched again.

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
use crate::runtime::clock::Clock;
use crate::store::limits::{STORE_CLOSE_TIMEOUT, STORE_PENDING_BYTES_MAX};
use crate::types::client_key::ClientKey;
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

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "store.redb";

#[derive(Clone, Debug)]
pub struct Config {
    pub path: PathBuf,
    /// Bytes of the file. The least recently written origins are evicted first.
    pub size_max: u64,
    /// Bytes of memory for the write queue.
    pub pending_max: usize,
    /// How long to wait before reopening a file that failed.
    pub retry: Duration,
}

impl Config {
    /// The defaults, with the file at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, size_max: 1 << 30, pending_max: STORE_PENDING_BYTES_MAX, retry: STORE_RETRY }
    }
}

/// The database and its writer thread. Dropping it flushes the queue, within a time limit.
pub struct Disk {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// An origin found by [`Disk::find`].
pub(super) enum Found {
    /// Still in the write queue.
    Waiting(Arc<Entry>),
    Kept(Box<Knowledge>, Blobs),
}

impl Disk {
    /// Opens the file, or creates it. Fails only if another process uses it; with any other problem
    /// the store continues in memory only, and logs that.
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

    /// Applies new bounds in bytes, for the file and for the write queue. What exceeds them is
    /// evicted soon.
    pub fn resize(&self, size_max: u64, pending_max: usize) {
        self.shared.resize(size_max, pending_max);
    }

    /// Queues the entry of `origin` for writing.
    pub(super) fn put(&self, origin: &Origin, entry: &Arc<Entry>) {
        self.shared.change(origin, Change::Put(Arc::clone(entry)));
    }

    pub(super) fn forget(&self, origin: &Origin) {
        self.shared.change(origin, Change::Forget);
    }

    /// Looks up `origin` on the blocking pool, in `client`'s turn, and converts the result by
    /// `make` there. `None` if it is not found, or not in time.
    pub(super) async fn find<T: Send + 'static>(
        &self,
        origin: &Origin,
        client: &ClientKey,
        make: impl FnOnce(Found) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        if self.shared.hangs() {
            // The write queue is in memory, so it can be read.
            return self.shared.waiting(origin).and_then(make);
        }
        let (shared, origin) = (Arc::clone(&self.shared), origin.clone());
        let looked = async {
            let turn = self.shared.loads.acquire(client).await;
            let look = move || {
                let made = shared.look(&origin).map(make);
                shared.answers();
                // Released at the end of the read, so that clients that leave do not cause more
                // threads.
                drop(turn);
                match made {
                    // The data is valid JSON but no possible entry: remove it, too.
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

    /// Waits until the queue is written, or cannot be, or the time is over. Returns whether it is
    /// written.
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

    /// Flushes the queue within a time limit, and closes the file. Later changes are ignored.
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
                // The thread has nothing left to do but to return.
                let _ = writer.join();
            }
            Some(_) => {
                tracing::error!("the store did not take what was still to be written in time")
            }
            None => {}
        }
    }
}

/// The error while the disk does not respond.
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
