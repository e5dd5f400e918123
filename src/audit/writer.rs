//! The writer, as others see it: a handle on the one thread that owns the file. Whoever has a record
//! waits until its line has been handed to the operating system, so that no denial goes out before
//! its record; those who wait together share one write.

use std::borrow::Cow;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};

use super::config::{Config, Current};
use super::exhibits::ExhibitName;
use super::health::{Health, Status};
use super::keeper::Keeper;
use super::lock;
use super::notice::Notice;
use super::record::Record;
use super::redact::Redactor;
use super::scribe::{Bells, News, Scribe};
use super::start::{find_head, open_active};
use crate::clock::Clock;
use crate::evidence::Exhibit;
use crate::limits::{CLOSINGS_WAITING_MAX, RECORDS_WAITING_MAX};

/// A handle on the writer, to be shared by all threads and runtimes. Dropping it writes what waits,
/// brings it to the disk, and ends the thread.
#[derive(Debug)]
pub struct Writer {
    queue: Option<mpsc::Sender<Job>>,
    bells: Arc<Bells>,
    files: watch::Receiver<u64>,
    config: Current,
    status: Arc<Status>,
    thread: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    redactor: ArcSwapOption<Redactor>,
}

/// The writer, for whoever looks after its closed files. It keeps no writer alive.
#[derive(Clone, Debug)]
pub struct Desk {
    queue: mpsc::WeakSender<Job>,
    files: watch::Receiver<u64>,
}

/// A line's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub seq: u64,
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

/// Why evidence was not removed.
#[derive(Debug, thiserror::Error)]
pub enum ForgetError {
    #[error("another file has been begun meanwhile")]
    Outdated,
    #[error("evidence cannot be removed: {0}")]
    Io(io::Error),
    #[error("the writer has stopped")]
    Stopped,
}

/// What the thread is asked to do, and where to say how it went.
#[derive(Debug)]
pub(super) enum Job {
    Write { record: Box<Record>, exhibits: Vec<Exhibit>, done: Done },
    Note { notice: Notice, done: Done },
    Forget { names: Vec<ExhibitName>, files: u64, done: oneshot::Sender<Result<u64, ForgetError>> },
}

pub(super) type Done = oneshot::Sender<Result<Written, WriteError>>;

impl Writer {
    /// Opens the directory for this process alone, and makes it if need be.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let config: Current = Arc::new(ArcSwap::from_pointee(config));
        let set = config.load_full();
        let dir: &Path = &set.dir;
        let failed = |source| OpenError::Io { path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let lock = lock::take(dir).map_err(failed)?.ok_or_else(|| OpenError::Locked(dir.to_owned()))?;
        let redactor = redactor(&set).map_err(failed)?.into();
        let active = open_active(dir, clock.wall()).map_err(failed)?;
        let head = find_head(dir, &active).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed)?;
        let (queue, jobs) = mpsc::channel(RECORDS_WAITING_MAX);
        let (status, bells) = (Arc::new(Status::new(set.on_failure)), Arc::new(Bells::default()));
        let (begun, files) = watch::channel(0);
        let (closed, closings) = mpsc::channel(CLOSINGS_WAITING_MAX);
        let keepers_lock = lock.try_clone().map_err(failed)?;
        let scribe = Scribe::new(
            Arc::clone(&config),
            Arc::clone(&clock),
            active,
            head,
            lock,
            Arc::clone(&status),
            News { files: begun, closed },
        );
        let thread = {
            let bells = Arc::clone(&bells);
            let run = move || scribe.run(&runtime, jobs, &bells);
            std::thread::Builder::new().name("audit".into()).spawn(run).map_err(failed)?
        };
        let (queue, thread) = (Some(queue), Some(thread));
        let kept = Arc::clone(&config);
        let mut writer = Self { queue, bells, files, config, status, thread, keeper: None, redactor };
        writer.keeper =
            Some(Keeper::start(kept, clock, writer.desk(), closings, keepers_lock).map_err(failed)?);
        Ok(writer)
    }

    /// Writes one record and returns when its line is with the operating system: a process that is
    /// killed afterwards has not lost it. After an error the next record is tried afresh.
    /// Before it, what `exhibits` holds that is not kept yet.
    pub async fn write(&self, record: Record, exhibits: Vec<Exhibit>) -> Result<Written, WriteError> {
        let mut record = Box::new(record);
        if let Cow::Owned(redacted) = self.shown(&record.url) {
            record.url = redacted;
        }
        let ask = |done| Job::Write { record, exhibits, done };
        answer(self.queue.as_ref(), ask).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// The URL of a record as it may be seen by who reads logs: as it is, or without the values of its
    /// query, as the setting says.
    pub fn shown<'a>(&self, url: &'a str) -> Cow<'a, str> {
        match &*self.redactor.load() {
            Some(redactor) => Cow::Owned(redactor.url(url)),
            None => Cow::Borrowed(url),
        }
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        let ask = |done| Job::Note { notice, done };
        answer(self.queue.as_ref(), ask).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Whether nothing may be served now: records cannot be written, and the setting says to stop.
    pub fn is_stopped(&self) -> bool {
        self.status.is_stopped()
    }

    /// Opens the file anew: another program has taken it away. What is written from now on goes
    /// there.
    pub fn reopen(&self) {
        self.bells.hang_up.notify_one();
    }

    /// Goes on with other settings; only the directory stays what it was. With an error, nothing has
    /// changed.
    pub fn change(&self, config: Config) -> Result<(), OpenError> {
        let config = Config { dir: self.config.load().dir.clone(), ..config };
        let failed = |source| OpenError::Io { path: config.dir.clone(), source };
        self.redactor.store(redactor(&config).map_err(failed)?);
        self.status.change(config.on_failure);
        self.config.store(Arc::new(config));
        self.bells.changed.notify_one();
        Ok(())
    }

    pub fn health(&self) -> Health {
        self.status.health()
    }

    /// For whoever looks after the closed files.
    pub fn desk(&self) -> Desk {
        let queue = self.queue.as_ref().expect("it is there until the writer is dropped");
        Desk { queue: queue.downgrade(), files: self.files.clone() }
    }
}

impl Desk {
    /// How many files have been begun since the writer was opened; it changes when one is closed. An
    /// error of [`watch::Receiver::changed`] is the end of the writer.
    pub fn files(&mut self) -> &mut watch::Receiver<u64> {
        &mut self.files
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        let ask = |done| Job::Note { notice, done };
        answer(self.queue.upgrade().as_ref(), ask).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Removes evidence that no line of a closed file names, unless the file being written does; tells
    /// how many pieces are gone. `files` is the number of files begun when those closed were looked
    /// through: were there more since, nothing is removed, and they have to be looked through again.
    pub async fn forget(&self, names: Vec<ExhibitName>, files: u64) -> Result<u64, ForgetError> {
        let ask = |done| Job::Forget { names, files, done };
        answer(self.queue.upgrade().as_ref(), ask).await.unwrap_or(Err(ForgetError::Stopped))
    }
}

/// What replaces the values of queries, where the setting asks for that.
fn redactor(config: &Config) -> io::Result<Option<Arc<Redactor>>> {
    let redactor = config.redact_query.then(|| Redactor::open(&config.dir)).transpose()?;
    Ok(redactor.map(Arc::new))
}

/// Puts a job in the queue, and waits for what comes of it; `None` when there is no writer any more.
async fn answer<T>(
    queue: Option<&mpsc::Sender<Job>>,
    ask: impl FnOnce(oneshot::Sender<T>) -> Job,
) -> Option<T> {
    let (done, answered) = oneshot::channel();
    queue?.send(ask(done)).await.ok()?;
    answered.await.ok()
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
        // Which ends this one, too.
        if let Some(keeper) = self.keeper.take()
            && keeper.join().is_err()
        {
            tracing::error!("the keeper of closed denial records has panicked");
        }
    }
}
