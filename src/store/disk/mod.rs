//! The store on disk: what is known of origins beyond memory and restarts, in one database file
//! that belongs to one process.
//!
//! Promises: no request waits for a write, and none waits longer for a read than for a fetch; a
//! disk that does not respond gets no further reads until it does; an unusable file is logged,
//! counted, and done without; a read returns what was written, or nothing. A killed process or a
//! power failure loses the changes of the last `STORE_BATCH_WAIT` and one transaction: those
//! origins are fetched again.

mod blob;
mod config;
mod error;
mod file;
#[cfg(test)]
pub(super) mod fixture;
mod health;
mod migrate;
mod offline;
mod pace;
pub(crate) mod pending;
mod shared;
mod survey;
mod tables;
mod writer;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::entry::Entry;
use super::report::Report;
use crate::runtime::clock::Clock;
use crate::runtime::lock::{Lock, wait_timeout_while};
use crate::store::limits::STORE_CLOSE_TIMEOUT;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;
pub use config::Config;
pub use error::OpenError;
use error::{DiskError, guarded};
use file::DatabaseFile;
pub use health::Health;
pub use offline::Offline;
pub use pace::{KeptPace, KeptRow};
use pending::Change;
pub(super) use shared::Found;
use shared::{Shared, State};
pub use survey::{Each, Stats};

/// How long a request's flight waits for the store before it asks the origin instead.
const STORE_LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The name of the file in the state directory.
pub const FILE_NAME: &str = "store.redb";

/// The database and its writer thread. Dropping it flushes the queue, within a time limit.
pub struct Disk {
    shared: Arc<Shared>,
    writer: Lock<Option<JoinHandle<()>>>,
}

impl Disk {
    /// Opens the file, or creates it. Fails only if another process uses it; with any other problem
    /// the store continues in memory only, and logs that.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared::new(config, clock));
        match shared.open_or_begin() {
            Ok(file) => shared.take_up(file),
            Err(DiskError::Locked) => return Err(OpenError::Locked(shared.config.path.clone())),
            Err(error) => shared.give_up(None, error),
        }
        let writer = {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("store".into());
            thread.spawn(move || shared.write_all())
        };
        let path = &shared.config.path;
        let writer = writer.map_err(|error| DiskError::Io(error.to_string()).at(path.clone()))?;
        Ok(Self { shared, writer: Lock::new(Some(writer)) })
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
        let mut state = self.shared.state();
        state.is_hurried = true;
        self.shared.changed.notify_all();
        let unsettled = |state: &mut State| !state.pending.is_settled() && state.file.is_some();
        let mut state = wait_timeout_while(&self.shared.changed, state, wait, unsettled);
        state.is_hurried = false;
        state.pending.is_settled()
    }

    /// The amount of data. Flushes the write queue first.
    pub fn stats(&self) -> Result<Stats, OpenError> {
        self.survey(Stats::of)
    }

    /// Calls `each` for every origin; returns how many rows were broken. The inner error is the one
    /// of `each`. Flushes the write queue first.
    pub fn export(
        &self,
        mut each: impl FnMut(Report) -> io::Result<()>,
    ) -> Result<io::Result<u64>, OpenError> {
        self.survey(|file| survey::export(file, &mut each))
    }

    fn survey<T>(
        &self,
        look: impl FnOnce(&DatabaseFile) -> Result<T, DiskError>,
    ) -> Result<T, OpenError> {
        self.flush(STORE_CLOSE_TIMEOUT);
        let (file, failing) = {
            let state = self.shared.state();
            (state.file.as_ref().map(Arc::clone), state.health.failing.clone())
        };
        let Some(file) = file else {
            return Err(OpenError::Failing(
                failing.unwrap_or_else(|| "the store is closed".into()),
            ));
        };
        guarded(|| look(&file)).map_err(|error| error.at(self.shared.config.path.clone()))
    }

    /// The current health.
    pub fn health(&self) -> Health {
        let state = self.shared.state();
        Health {
            pending: state.pending.len() as u64,
            dropped: state.pending.dropped,
            file_bytes: state.file.as_ref().map_or(0, |file| file.bytes()),
            failing: state.health.failing.clone().or_else(|| self.shared.hangs().then(no_answer)),
            ..state.health.clone()
        }
    }

    /// Flushes the queue within a time limit, and closes the file. Later changes are ignored.
    pub fn close(&self) {
        self.close_within(STORE_CLOSE_TIMEOUT);
    }

    /// The same, within `max_wait` if that is shorter.
    pub fn close_within(&self, max_wait: Duration) {
        if self.writer.lock().is_none() {
            return;
        }
        let mut state = self.shared.state();
        state.is_closing = true;
        self.shared.changed.notify_all();
        let waiting = |state: &mut State| !state.has_ended;
        let max_wait = max_wait.min(STORE_CLOSE_TIMEOUT);
        let state = wait_timeout_while(&self.shared.changed, state, max_wait, waiting);
        let has_ended = state.has_ended;
        drop(state);
        let writer = self.writer.lock().take();
        match writer {
            Some(writer) if has_ended => {
                // The thread has nothing left to do but to return.
                let _ = writer.join();
            }
            Some(_) => {
                tracing::error!("the store did not write its queue in time")
            }
            None => {}
        }
    }
}

/// The error while the disk does not respond.
fn no_answer() -> String {
    format!("the disk has not responded for {STORE_LOAD_TIMEOUT:?}")
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
