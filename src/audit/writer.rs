//! The writer: one thread that owns the file. Whoever has a record waits until its line has been
//! handed to the operating system, so that no denial goes out before its record; those who wait
//! together share one write.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::journal::{Journal, private};
use super::line::{Content, Head};
use super::record::Record;
use super::segment::FILE_NAME;
use crate::clock::Clock;
use crate::evidence::Exhibit;
use crate::limits::RECORDS_WAITING_MAX;

const TORN_NAME: &str = "denials.torn";
const LOCK_NAME: &str = "lock";

/// How the log is kept.
#[derive(Clone, Debug)]
pub struct Config {
    pub dir: PathBuf,
    pub sync: Sync,
    pub on_failure: OnFailure,
    /// Octets after which a segment is closed.
    pub rotate_size: u64,
    /// The age of its first line after which a segment is closed.
    pub rotate_age: Duration,
    /// How long closed segments are kept; none: for ever.
    pub retain: Option<Duration>,
    /// Whether the values of queries are replaced by keyed hashes.
    pub redact_query: bool,
}

/// When what was written is brought to the disk itself: what a power cut may take. A killed process
/// loses nothing in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before the answer.
    Each,
    /// At most 100 ms after it.
    Batch,
    /// When the system likes.
    None,
}

/// What becomes of requests while records cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Denials go on without a record, and so does what is forwarded.
    Deny,
    /// Nothing is served until records can be written again.
    Stop,
}

impl Config {
    /// The defaults, in `dir`.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            sync: Sync::Batch,
            on_failure: OnFailure::Deny,
            rotate_size: 128 << 20,
            rotate_age: Duration::from_secs(24 * 60 * 60),
            retain: None,
            redact_query: false,
        }
    }
}

/// Whether a process is writing the log in `dir`.
pub fn is_written(dir: &Path) -> bool {
    let Ok(lock) = File::open(dir.join(LOCK_NAME)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// A handle on the writer, to be shared by all threads and runtimes. Dropping it writes what waits,
/// brings it to the disk, and ends the thread.
#[derive(Debug)]
pub struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    health: Arc<Mutex<Health>>,
    thread: Option<JoinHandle<()>>,
}

/// A record's place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub seq: u64,
}

/// How the writer does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Records written by this process.
    pub written: u64,
    /// Records that could not be.
    pub errors: u64,
    /// Why the last write failed; none once a write has succeeded again.
    pub failing: Option<String>,
}

/// Why the directory of records cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another courtesy uses {}", .0.display())]
    Locked(PathBuf),
    #[error("cannot write denial records to {}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Why a record was not written. The request is denied all the same.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the denial record could not be written: {0}")]
    Io(Arc<io::Error>),
    #[error("the denial record could not be written: the writer has stopped")]
    Stopped,
}

/// A record that waits, and where to say how it went.
type Job = (Record, Vec<Exhibit>, oneshot::Sender<Result<Written, WriteError>>);

impl Writer {
    /// Opens the directory for this process alone, and makes it if need be.
    pub fn open(config: Config, _clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let dir: &Path = &config.dir;
        let failed = |source| OpenError::Io { path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let lock = private().write(true).open(dir.join(LOCK_NAME)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(dir.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let (journal, tail) = Journal::open(&dir.join(FILE_NAME), &dir.join(TORN_NAME)).map_err(failed)?;
        if tail.torn > 0 {
            tracing::warn!(
                octets = tail.torn,
                last_seq = tail.head.seq,
                "the last denial record was torn, as after a crash; set aside in {}",
                dir.join(TORN_NAME).display()
            );
        }
        Self::start(journal, lock, tail.head).map_err(failed)
    }

    fn start(journal: Journal, lock: File, head: Head) -> io::Result<Self> {
        let (queue, jobs) = mpsc::channel(RECORDS_WAITING_MAX);
        let health = Arc::new(Mutex::new(Health::default()));
        let scribe = Scribe { journal, _lock: lock, head, health: health.clone() };
        let thread = std::thread::Builder::new().name("audit".into()).spawn(move || scribe.run(jobs))?;
        Ok(Self { queue: Some(queue), health, thread: Some(thread) })
    }

    /// Writes one record and returns when its line is with the operating system: a process that is
    /// killed afterwards has not lost it. After an error the next record is tried afresh.
    /// Before it, what `exhibits` holds that is not kept yet.
    pub async fn write(&self, record: Record, exhibits: Vec<Exhibit>) -> Result<Written, WriteError> {
        let (done, written) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or(WriteError::Stopped)?;
        queue.send((record, exhibits, done)).await.map_err(|_| WriteError::Stopped)?;
        written.await.map_err(|_| WriteError::Stopped)?
    }

    /// Whether nothing may be served now: records cannot be written, and the setting says to stop.
    pub fn is_stopped(&self) -> bool {
        false
    }

    /// Opens the file anew: another program has taken it away.
    pub fn reopen(&self) {}

    pub fn health(&self) -> Health {
        locked(&self.health).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without a sender the thread ends when it has written what waits.
        self.queue = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of denial records has panicked");
        }
    }
}

/// The thread's side.
struct Scribe {
    journal: Journal,
    /// Held as long as the file may be written.
    _lock: File,
    /// The last line written.
    head: Head,
    health: Arc<Mutex<Health>>,
}

impl Scribe {
    fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut batch = Vec::with_capacity(RECORDS_WAITING_MAX);
        while jobs.blocking_recv_many(&mut batch, RECORDS_WAITING_MAX) > 0 {
            self.commit(&mut batch);
        }
        if let Err(error) = self.journal.sync() {
            tracing::error!("denial records may not have reached the disk: {error}");
        }
    }

    /// Group commit: all that wait, in one write, then the answers.
    fn commit(&mut self, batch: &mut Vec<Job>) {
        let before = self.head.clone();
        let mut lines = Vec::new();
        let mut answers = Vec::with_capacity(batch.len());
        for (record, _exhibits, done) in batch.drain(..) {
            self.head.push(Content::Record(Box::new(record)), &mut lines);
            answers.push((done, Written { seq: self.head.seq }));
        }
        let outcome = self.journal.append(&lines).map_err(Arc::new);
        if outcome.is_err() {
            self.head = before;
        }
        self.note(&outcome, answers.len() as u64);
        for (done, written) in answers {
            // Whoever asked may have left; the record stands.
            let _ = done.send(outcome.clone().map(|()| written).map_err(WriteError::Io));
        }
    }

    fn note(&self, outcome: &Result<(), Arc<io::Error>>, records: u64) {
        let mut health = locked(&self.health);
        match outcome {
            Ok(()) => {
                health.written += records;
                if health.failing.take().is_some() {
                    tracing::info!("denial records can be written again");
                }
            }
            Err(error) => {
                health.errors += records;
                if health.failing.replace(error.to_string()).is_none() {
                    tracing::error!(
                        "cannot write denial records to {}: {error}",
                        self.journal.path().display()
                    );
                }
            }
        }
    }
}

/// Counters stay right even if somebody panicked while holding them.
fn locked(health: &Mutex<Health>) -> std::sync::MutexGuard<'_, Health> {
    health.lock().unwrap_or_else(PoisonError::into_inner)
}
