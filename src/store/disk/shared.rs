//! The state that requests share with the writer thread: the write queue, the open file, its
//! health.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};

use lru::LruCache;

use super::config::{Config, STORE_BATCH_MAX};
use super::error::{DiskError, Health, guarded};
use super::file::{DatabaseFile, Row};
use crate::clients::FairSemaphore;
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::store::entry::Entry;
use crate::store::persisted::{Blobs, Persisted};
use crate::types::origin::Origin;

/// Origins read from the store at once: each occupies a thread of the blocking pool.
const STORE_LOADS_MAX: usize = 8;

/// An origin that was found.
pub(in crate::store) enum Found {
    /// Still in the write queue.
    Queued(Arc<Entry>),
    /// Read from the file.
    Stored(Box<Persisted>, Blobs),
}

/// Shared by requests and the writer thread.
pub(super) struct Shared {
    pub(super) config: Config,
    /// Initially as in `config`.
    pub(super) size_max: AtomicU64,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Lock<State>,
    /// Signalled on every change of the state that a thread waits for.
    pub(super) changed: Condvar,
    pub(super) loads: Arc<FairSemaphore>,
    /// A read has timed out, and none has returned since.
    hangs: AtomicBool,
}

/// The state under the lock. The lock is never held during I/O.
pub(super) struct State {
    /// `None` while the file cannot be used.
    pub(super) file: Option<Arc<DatabaseFile>>,
    pub(super) pending: Pending,
    pub(super) health: Health,
    /// Whether reopening the file cannot help.
    pub(super) is_hopeless: bool,
    /// A caller waits until the queue is empty.
    pub(super) is_hurried: bool,
    /// The file may exceed a new limit.
    pub(super) is_resized: bool,
    pub(super) is_closing: bool,
    pub(super) has_ended: bool,
}

impl Shared {
    pub(super) fn new(config: Config, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            file: None,
            pending: Pending::new(config.pending_max),
            health: Health { enabled: true, ..Health::default() },
            is_hopeless: false,
            is_hurried: false,
            is_resized: false,
            is_closing: false,
            has_ended: false,
        };
        Self {
            size_max: AtomicU64::new(config.size_max),
            config,
            clock,
            state: Lock::new(state),
            changed: Condvar::new(),
            hangs: AtomicBool::new(false),
            loads: FairSemaphore::new(STORE_LOADS_MAX),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // No code path leaves the state inconsistent.
        self.state.lock()
    }

    /// Bytes of the file.
    pub(super) fn size_max(&self) -> u64 {
        self.size_max.load(Ordering::Relaxed)
    }

    /// Applies new bounds, for the file and for the queue.
    pub(super) fn resize(&self, size_max: u64, pending_max: usize) {
        self.state().pending.resize(pending_max);
        if self.size_max.swap(size_max, Ordering::Relaxed) != size_max {
            self.state().is_resized = true;
            self.changed.notify_all();
        }
    }

    pub(super) fn change(&self, origin: &Origin, change: Change) {
        let state = self.state();
        if !state.is_closing {
            self.put(state, origin, change);
        }
    }

    /// Wakes the writer for the first change and for a full batch only.
    fn put(&self, mut state: MutexGuard<'_, State>, origin: &Origin, change: Change) {
        let is_first = state.pending.len() == 0;
        state.pending.put(origin, change);
        let is_full = state.pending.len() >= STORE_BATCH_MAX;
        drop(state);
        if is_first || is_full {
            self.changed.notify_all();
        }
    }

    /// Whether the disk does not respond. False without reads in flight, since none could return.
    pub(super) fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Relaxed) && self.loads.in_use() > 0
    }

    /// A read has timed out: start no more until one of those in flight returns.
    pub(super) fn does_not_answer(&self) {
        if !self.hangs.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the disk of the store does not respond; it gets no further reads until it does"
            );
        }
    }

    /// A read has returned.
    pub(super) fn answers(&self) {
        if self.hangs.swap(false, Ordering::Relaxed) {
            tracing::info!("the disk of the store responds again");
        }
    }

    /// The queued entry of `origin`.
    pub(super) fn waiting(&self, origin: &Origin) -> Option<Found> {
        match self.state().pending.get(origin) {
            Some(Change::Put(entry)) => Some(Found::Queued(Arc::clone(entry))),
            Some(Change::Forget) | None => None,
        }
    }

    pub(super) fn look(&self, origin: &Origin) -> Option<Found> {
        let file = {
            let mut state = self.state();
            state.health.loads += 1;
            match state.pending.get(origin) {
                Some(Change::Put(entry)) => {
                    let entry = Arc::clone(entry);
                    state.health.load_hits += 1;
                    return Some(Found::Queued(entry));
                }
                Some(Change::Forget) => return None,
                None => Arc::clone(state.file.as_ref()?),
            }
        };
        match guarded(|| file.read(&origin.to_string())) {
            Ok(None) => None,
            Ok(Some(Row::Stored(persisted, blobs))) => {
                self.state().health.load_hits += 1;
                Some(Found::Stored(persisted, blobs))
            }
            Ok(Some(Row::Broken)) => {
                self.drop_broken(origin);
                None
            }
            Err(error) => {
                self.give_up(Some(&file), error);
                None
            }
        }
    }

    /// Queues the removal of a broken row, unless a newer change is queued.
    pub(super) fn drop_broken(&self, origin: &Origin) {
        let mut state = self.state();
        state.health.broken += 1;
        if state.pending.get(origin).is_none() {
            self.put(state, origin, Change::Forget);
        } else {
            drop(state);
        }
        tracing::warn!(%origin, "the stored data of this origin is invalid, and is removed");
    }

    /// Starts using `file`.
    pub(super) fn take_up(&self, file: DatabaseFile) {
        let totals = guarded(|| file.totals()).unwrap_or_default();
        let mut state = self.state();
        state.file = Some(Arc::new(file));
        (state.health.entries, state.health.bytes) = (totals.entries, totals.bytes);
        if state.health.failing.take().is_some() {
            tracing::info!("the store {} can be used again", self.config.path.display());
        }
    }

    /// Stops using the file, unless it has been replaced since.
    pub(super) fn give_up(&self, file: Option<&Arc<DatabaseFile>>, error: DiskError) {
        let mut state = self.state();
        if let (Some(failed), Some(used)) = (file, &state.file)
            && !Arc::ptr_eq(failed, used)
        {
            return;
        }
        let used = state.file.take();
        state.health.errors += 1;
        state.is_hopeless = matches!(error, DiskError::Newer(_));
        let error = error.at(self.config.path.clone());
        if state.health.failing.replace(error.to_string()).is_none() {
            tracing::error!("{error}; origins are stored in memory only");
        }
        drop(state);
        self.changed.notify_all();
        // Closing a broken file may fail, too.
        let _ = guarded(|| {
            drop(used);
            Ok(())
        });
    }
}

// The write queue, one change per origin. Bounded: when it is full the oldest change is dropped,
// because no request may wait for a disk.

/// Origins whose persisted waits to be written to the store. Of more, the oldest goes unwritten: it
/// is asked for again after a restart.
pub(crate) const STORE_PENDING_MAX: usize = 32_768;

/// A change of an origin's row.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Arc<Entry>),
    Forget,
}

/// Changes in the order of their arrival; a newer change of an origin replaces the older one.
pub(super) struct Pending {
    waiting: LruCache<Origin, Change>,
    /// The bytes of all changes, including those being written.
    bytes: usize,
    bytes_max: usize,
    /// Taken by the writer, and not yet on disk.
    writing: Arc<HashMap<Origin, Change>>,
    /// Changes dropped because the queue was full.
    pub dropped: u64,
}

impl Change {
    fn weight(&self) -> usize {
        match self {
            Self::Put(entry) => entry.weight(),
            Self::Forget => 0,
        }
    }
}

impl Pending {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: LruCache::unbounded(),
            bytes: 0,
            bytes_max,
            writing: Arc::default(),
            dropped: 0,
        }
    }

    pub(super) fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.bound();
    }

    pub(super) fn put(&mut self, origin: &Origin, change: Change) {
        self.bytes += change.weight();
        if let Some((_, replaced)) = self.waiting.push(origin.clone(), change) {
            self.bytes -= replaced.weight();
        }
        self.bound();
    }

    /// The change of `origin` that is newer than the disk.
    pub(super) fn get(&self, origin: &Origin) -> Option<&Change> {
        self.waiting.peek(origin).or_else(|| self.writing.get(origin))
    }

    /// Takes the oldest changes for one transaction, up to `bytes_max`. They remain visible until
    /// [`Self::written`].
    pub(super) fn take(&mut self, bytes_max: usize) -> Arc<HashMap<Origin, Change>> {
        let (mut batch, mut bytes) = (HashMap::new(), 0);
        while batch.len() < STORE_BATCH_MAX && bytes < bytes_max {
            let Some((origin, change)) = self.waiting.pop_lru() else { break };
            bytes += change.weight();
            batch.insert(origin, change);
        }
        self.writing = Arc::new(batch);
        Arc::clone(&self.writing)
    }

    /// Marks the batch as written.
    pub(super) fn written(&mut self) {
        let batch = std::mem::take(&mut self.writing);
        self.bytes -= batch.values().map(Change::weight).sum::<usize>();
    }

    /// Returns a failed batch to the queue as its oldest changes, unless newer ones replace them.
    pub(super) fn put_back(&mut self) {
        let batch = std::mem::take(&mut self.writing);
        for (origin, change) in batch.iter() {
            if self.waiting.contains(origin) {
                self.bytes -= change.weight();
            } else {
                self.waiting.push(origin.clone(), change.clone());
                self.waiting.demote(origin);
            }
        }
        self.bound();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.writing.is_empty()
    }

    fn bound(&mut self) {
        while self.waiting.len() > STORE_PENDING_MAX || self.bytes > self.bytes_max {
            let Some((_, dropped)) = self.waiting.pop_lru() else { break };
            self.bytes -= dropped.weight();
            self.dropped += 1;
        }
    }
}
