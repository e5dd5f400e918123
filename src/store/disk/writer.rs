//! The writer thread: writes changes in batches, one transaction each, and reopens the file from
//! time to time after a failure.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use time::OffsetDateTime;
use time::macros::format_description;

use super::error::{DiskError, guarded};
use super::file::DatabaseFile;
use super::pace::note_loss;
use super::pending::Change;
use super::shared::{Shared, State};
use super::tables::Totals;
use crate::runtime::lock::{wait_timeout_while, wait_while};
use crate::store::limits::STORE_BATCH_MAX;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

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
    pub(super) fn write_all(&self) {
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
    pub(super) fn open_or_begin(&self) -> Result<DatabaseFile, DiskError> {
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
