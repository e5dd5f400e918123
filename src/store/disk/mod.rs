//! The store on disk: what is known of origins beyond memory and restarts, in one database file
//! that belongs to one process.
//!
//! Promises: no request waits for a write, and none waits longer for a read than for a fetch; a
//! disk that does not respond gets no further reads until it does; an unusable file is logged,
//! counted, and done without; a read returns what was written, or nothing. A killed process or a
//! power failure loses the changes of the last `STORE_BATCH_WAIT` and one transaction: those
//! origins are fetched again.

pub mod config;
mod error;
mod file;
#[cfg(test)]
pub(super) mod fixture;
mod offline;
pub(crate) mod shared;
mod survey;
mod tables;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use redb::{ReadableTable, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::macros::format_description;

use super::counters::Report;
use super::entry::Entry;
use crate::pace::KeptLane;
use crate::runtime::clock::{Clock, Uptime};
use crate::runtime::lock::{Lock, wait_timeout_while, wait_while};
use crate::types::ClientKey;
use crate::types::origin::{Origin, split_url};
use crate::types::timestamp::Timestamp;
pub use config::Config;
use config::{STORE_BATCH_MAX, STORE_CLOSE_TIMEOUT};
use error::{DiskError, guarded};
pub use error::{Health, OpenError};
use file::DatabaseFile;
pub use offline::Offline;
pub(super) use shared::Found;
use shared::{Change, Shared, State};
pub use survey::{Each, Stats};
use tables::Totals;

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

// The pace of origins beyond a restart: one row for each lane with a time ahead, and a mark that
// shows whether the process before this one ended in order.

/// Origin → [`KeptRow`] as JSON.
const PACE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("pace");

/// In the table of totals: 1 after an end in order, 0 while a process runs.
const PACE_IS_WHOLE: &str = "pace_is_whole";

/// In the same table: how many proxies shared the engine.
const MEMBERS: &str = "members";

/// What the process before has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptPace {
    pub rows: Vec<(Origin, KeptRow)>,
    /// The rows are all there is to know: the process ended in order, or there was none.
    pub is_whole: bool,
}

/// A lane as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptRow {
    pub at: Timestamp,
    /// The same, whatever becomes of the date.
    pub uptime: Option<Uptime>,
    pub lane: KeptLane,
}

impl Disk {
    /// Reads what the process before has left, and marks that one runs. `None`: the store cannot
    /// be used.
    pub fn begin_pace(&self) -> Option<KeptPace> {
        self.pace_file(|file| {
            let mark = file.number(PACE_IS_WHOLE)?;
            let mut kept = KeptPace { rows: Vec::new(), is_whole: mark != Some(0) };
            file.write(|tables, transaction| {
                tables.set_number(PACE_IS_WHOLE, 0)?;
                for row in transaction.open_table(PACE)?.iter()? {
                    let (origin, row) = row?;
                    let origin = split_url(origin.value().as_bytes()).map(|(origin, _)| origin);
                    match (origin, serde_json::from_slice(row.value())) {
                        (Ok(origin), Ok(row)) => kept.rows.push((origin, row)),
                        _ => kept.is_whole = false,
                    }
                }
                Ok(())
            })?;
            Ok(kept)
        })
    }

    /// Replaces all rows; `is_whole` where they are all there is to know. Blocks until they are on
    /// the disk.
    pub fn keep_pace(&self, rows: &[(Origin, KeptRow)], is_whole: bool) {
        self.pace_file(|file| {
            file.write(|tables, transaction| {
                transaction.delete_table(PACE)?;
                let mut table = transaction.open_table(PACE)?;
                for (origin, row) in rows {
                    table.insert(&*origin.to_string(), json(row).as_slice())?;
                }
                tables.set_number(PACE_IS_WHOLE, u64::from(is_whole))
            })
        });
    }

    /// How many proxies shared the engine when this was last written; 0: it is not known.
    pub fn members(&self) -> usize {
        let members = self.pace_file(|file| file.number(MEMBERS)).flatten();
        members.and_then(|members| usize::try_from(members).ok()).unwrap_or(0)
    }

    /// Writes how many proxies share the engine: a process that starts while that is away takes its
    /// share of the pace. Blocks until it is on the disk.
    pub fn keep_members(&self, members: usize) {
        let members = u64::try_from(members).unwrap_or(u64::MAX);
        self.pace_file(|file| file.write(|tables, _| tables.set_number(MEMBERS, members)));
    }

    /// Runs `work` on the file, if there is one. An error makes it as if there was none: it costs
    /// time, and no early start.
    fn pace_file<T>(&self, work: impl FnOnce(&DatabaseFile) -> Result<T, DiskError>) -> Option<T> {
        let file = self.shared.state().file.clone()?;
        match guarded(|| work(&file)) {
            Ok(done) => Some(done),
            Err(error) => {
                let error = error.at(self.shared.config.path.clone());
                tracing::warn!("the pace of origins does not outlive the process: {error}");
                None
            }
        }
    }
}

/// Marks a new file that replaces a lost one: what the process before knew is not in it.
fn note_loss(file: &DatabaseFile) -> Result<(), DiskError> {
    file.write(|tables, _| tables.set_number(PACE_IS_WHOLE, 0))
}

/// Ends the hold of `origin`; whether there was one. Its delays stay.
fn forget_hold(transaction: &WriteTransaction, origin: &str) -> Result<bool, DiskError> {
    let mut table = transaction.open_table(PACE)?;
    let row = table.get(origin)?.map(|row| row.value().to_vec());
    let row = row.and_then(|row| serde_json::from_slice::<KeptRow>(&row).ok());
    let Some(mut row) = row.filter(|row| row.lane.hold.is_some()) else { return Ok(false) };
    row.lane.hold = None;
    table.insert(origin, json(&row).as_slice())?;
    Ok(true)
}

fn json(row: &KeptRow) -> Vec<u8> {
    serde_json::to_vec(row).expect("plain values")
}

// The writer thread: writes changes in batches, one transaction each, and reopens the file from
// time to time after a failure.

/// How long a change waits for others to share its transaction: what a killed process may lose.
const STORE_BATCH_WAIT: Duration = Duration::from_millis(200);

type Batch = Arc<HashMap<Origin, Change>>;

/// The writer's next task.
enum Task {
    Write(Arc<DatabaseFile>, Batch),
    Reopen,
    End,
}

impl Shared {
    /// Runs until the store is closed.
    fn write_all(&self) {
        loop {
            match self.next_task() {
                Task::Write(file, batch) => self.write(&file, &batch),
                Task::Reopen => match self.open_or_begin() {
                    Ok(file) => self.take_up(file),
                    Err(error) => self.give_up(None, error),
                },
                Task::End => break,
            }
        }
        let file = self.state().file.take();
        // The last owner closes the file, which may fail, too.
        let _ = guarded(|| {
            drop(file);
            Ok(())
        });
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    fn next_task(&self) -> Task {
        let state = wait_while(&self.changed, self.state(), |state| {
            let is_idle = if state.file.is_some() {
                state.pending.len() == 0 && !state.is_resized
            } else {
                state.is_hopeless
            };
            is_idle && !state.is_closing
        });
        let Some(file) = state.file.clone() else {
            let resting = |state: &mut State| !state.is_closing;
            let state = wait_timeout_while(&self.changed, state, self.config.retry, resting);
            return if state.is_closing { Task::End } else { Task::Reopen };
        };
        // More changes may arrive that can share the transaction.
        let gathering = |state: &mut State| {
            state.pending.len() < STORE_BATCH_MAX && !state.is_hurried && !state.is_closing
        };
        let mut state = wait_timeout_while(&self.changed, state, STORE_BATCH_WAIT, gathering);
        // A transaction frees the pages that it replaces only at its end, so a small file takes
        // small batches.
        let bytes_max = usize::try_from(self.size_max() / 32).unwrap_or(usize::MAX);
        let batch = state.pending.take(bytes_max);
        state.is_resized = false;
        if batch.is_empty() && state.is_closing { Task::End } else { Task::Write(file, batch) }
    }

    fn write(&self, file: &Arc<DatabaseFile>, batch: &Batch) {
        let written = guarded(|| self.transact(file, batch));
        let mut state = self.state();
        match written {
            Ok((totals, evicted)) => {
                state.pending.written();
                let health = &mut state.health;
                health.writes += batch.len() as u64;
                health.evicted += evicted;
                (health.entries, health.bytes) = (totals.entries, totals.bytes);
            }
            Err(error) => {
                state.pending.put_back();
                drop(state);
                self.give_up(Some(file), error);
            }
        }
        self.changed.notify_all();
    }

    fn transact(&self, file: &DatabaseFile, batch: &Batch) -> Result<(Totals, u64), DiskError> {
        file.write(|tables, _| {
            for (origin, change) in batch.iter() {
                let origin = origin.to_string();
                match change {
                    Change::Put(entry) => {
                        let (persisted, blobs) = entry.persist();
                        tables.put(&origin, &persisted, &blobs)?;
                    }
                    Change::Forget => {
                        tables.remove(&origin)?;
                    }
                }
            }
            let evicted = tables.evict(file.room(self.size_max()))?;
            Ok((tables.totals()?, evicted))
        })
    }

    /// Opens the file. Renames a damaged one, and creates another.
    fn open_or_begin(&self) -> Result<DatabaseFile, DiskError> {
        let open = || {
            guarded(|| {
                let mut file = DatabaseFile::open(&self.config.path, true)?;
                file.write(|tables, _| tables.evict(file.room(self.size_max())))?;
                file.compact_if_worth_it()?;
                Ok(file)
            })
        };
        match open() {
            Err(DiskError::Damaged(why)) => {
                let aside = set_aside(&self.config.path, self.clock.wall())
                    .map_err(|error| DiskError::Io(error.to_string()))?;
                tracing::warn!(
                    "the store {} was damaged ({why}); it is renamed to {}, and a new one is created",
                    self.config.path.display(),
                    aside.display()
                );
                let file = open()?;
                note_loss(&file)?;
                Ok(file)
            }
            opened => opened,
        }
    }
}

/// Keeps the last damaged file only, so that they do not accumulate.
fn set_aside(path: &Path, now: Timestamp) -> std::io::Result<PathBuf> {
    let prefix = format!("{}.damaged-", path.file_name().unwrap_or_default().to_string_lossy());
    for entry in std::fs::read_dir(path.parent().unwrap_or(Path::new(".")))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            std::fs::remove_file(entry.path())?;
        }
    }
    let seconds = i64::try_from(now.millis() / 1000).unwrap_or(i64::MAX);
    let date = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let format = format_description!("[year][month][day]T[hour][minute][second]Z");
    let aside = path.with_file_name(prefix + &date.format(&format).unwrap_or_default());
    std::fs::rename(path, &aside)?;
    Ok(aside)
}
