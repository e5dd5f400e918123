//! The writer, as others see it: a handle on the one thread that owns the file. Whoever has a record
//! waits until its line has been handed to the operating system, so that no denial goes out before
//! its record; those who wait together share one write.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, watch};

use super::directory::Place;
use super::handle::{Desk, ask};
use super::health::{Health, Status};
use super::in_flight::Work;
use super::message::{CloseError, Job, OpenError, WriteError, Written};
use super::recover::{find_head, open_active};
use super::retention::Keeper;
use super::signals::{Bells, News};
use super::watchdog::Watchdog;
use super::writer_thread::Scribe;
use crate::audit::config::{Config, Current};
use crate::audit::evidence::Exhibit;
use crate::audit::limits::RECORDS_WAITING_MAX;
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::Notice;
use crate::audit::record::redact::Redactor;
use crate::runtime::clock::Clock;

/// How long a writer that begins tries to have the directory of records to itself: who asks whether
/// one is at work holds the lock for an instant.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// Closed files of which the writer has told what they have, beside the one that is put away: others are read
/// to know it.
const CLOSINGS_WAITING_MAX: usize = 1;

/// A handle on the writer, to be shared by all threads and runtimes. Dropping it closes it.
#[derive(Debug)]
pub struct Writer {
    queue: mpsc::Sender<Job>,
    bells: Arc<Bells>,
    files: watch::Receiver<u64>,
    config: Current,
    status: Arc<Status>,
    work: Arc<Work>,
    threads: Mutex<Option<Threads>>,
    redactor: ArcSwapOption<Redactor>,
}

/// The threads behind it.
#[derive(Debug)]
struct Threads {
    writer: Thread,
    /// Looks after the closed files, and ends with the writer.
    keeper: Thread,
    _watchdog: Watchdog,
}

/// A thread that may never end, if the disk does not answer.
#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    /// Hung up when it ends.
    end: std::sync::mpsc::Receiver<()>,
}

impl Writer {
    /// Opens the directory for this process alone, and makes it if need be.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let config: Current = Arc::new(ArcSwap::from_pointee(config));
        let set = config.load_full();
        let dir: &Path = &set.dir;
        let failed = |source| OpenError::Io { path: dir.to_owned(), source };
        let place = Place::take(dir, LOCK_PATIENCE).map_err(failed)?;
        let place = place.ok_or_else(|| OpenError::Locked(dir.to_owned()))?;
        let redactor = redactor(&set).map_err(failed)?.into();
        let active = open_active(dir, clock.wall()).map_err(failed)?;
        let head = find_head(dir, &active).map_err(failed)?;
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed);
        let (queue, jobs) = mpsc::channel(RECORDS_WAITING_MAX);
        let (status, bells) = (Arc::new(Status::new(set.on_failure)), Arc::new(Bells::default()));
        let (begun, files) = watch::channel(0);
        let (closed, closings) = mpsc::channel(CLOSINGS_WAITING_MAX);
        let keepers_lock = place.share().map_err(failed)?;
        let work =
            Arc::new(Work::new(Arc::clone(&config), Arc::clone(&clock), Arc::clone(&status), jobs));
        let watchdog = Watchdog::start(Arc::clone(&work)).map_err(failed)?;
        let scribe = Scribe::new(
            Arc::clone(&config),
            Arc::clone(&clock),
            active,
            (head, place),
            Arc::clone(&work),
            Arc::clone(&status),
            News { files: begun, closed },
        );
        let (scribe, told, runtime_of_scribe) =
            (scribe.map_err(failed)?, Arc::clone(&bells), runtime()?);
        let thread = Thread::start("audit", move || scribe.run(&runtime_of_scribe, &told))
            .map_err(failed)?;
        let desk = Desk { queue: queue.downgrade(), files: files.clone() };
        let keeper = Keeper::new(Arc::clone(&config), clock, desk, closings, keepers_lock);
        let runtime = runtime()?;
        let keeper = Thread::start("audit-keeper", move || keeper.run(&runtime)).map_err(failed)?;
        let threads = Mutex::new(Some(Threads { writer: thread, keeper, _watchdog: watchdog }));
        Ok(Self { queue, bells, files, config, status, work, threads, redactor })
    }

    /// Writes one record and returns when its line is with the operating system: a process that is
    /// killed afterwards has not lost it. After an error the next record is tried afresh.
    /// Before it, what `exhibits` holds that is not kept yet.
    pub async fn write(
        &self,
        record: Record,
        exhibits: Vec<Exhibit>,
    ) -> Result<Written, WriteError> {
        let mut record = Box::new(record);
        if let Cow::Owned(redacted) = self.shown(&record.url) {
            record.url = redacted;
            record.url_as_received =
                record.url_as_received.map(|url| self.shown(&url).into_owned());
        }
        let job = |done| Job::Write { record, exhibits, done };
        ask(Some(&self.queue), job).await.unwrap_or(Err(WriteError::Stopped))
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
        self.note_with(notice, Vec::new()).await
    }

    /// The same, and before it what `exhibits` holds that is not kept yet.
    pub async fn note_with(
        &self,
        notice: Notice,
        exhibits: Vec<Exhibit>,
    ) -> Result<Written, WriteError> {
        let notice = Box::new(notice);
        let job = |done| Job::Note { notice, exhibits, done };
        ask(Some(&self.queue), job).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Has a line written that is no record, before the records that are written from now on; it waits until it
    /// can be. False: it is not, since too many wait already.
    pub fn queue_notice(&self, notice: Notice) -> bool {
        let is_taken = self.work.queue_notice(notice);
        self.bells.notice.notify_one();
        is_taken
    }

    /// Has a line written that is no record when the writer is closed, behind all others.
    pub fn queue_last_notice(&self, notice: Notice) {
        self.work.queue_last_notice(notice);
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
        Desk { queue: self.queue.downgrade(), files: self.files.clone() }
    }

    /// Writes what waits, brings it to the disk, and ends; nothing is written after it. An error where
    /// the disk does not answer within `audit.write_timeout`, or has not before: a thread that waits for
    /// it cannot be ended, and is left behind.
    pub fn close(&self) -> Result<(), CloseError> {
        let Some(threads) = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take()
        else {
            return Ok(());
        };
        self.bells.end.notify_one();
        let patience =
            || if self.work.is_given_up() { Duration::ZERO } else { self.work.timeout() };
        // The end of the writer ends the keeper, too.
        let has_ended = threads.writer.join(patience()) && threads.keeper.join(patience());
        if has_ended { Ok(()) } else { Err(CloseError) }
    }
}

impl Thread {
    fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (ending, end) = std::sync::mpsc::channel();
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped when it ends, however it does.
            let _ending = ending;
            run();
        })?;
        Ok(Self { handle, end })
    }

    /// Waits for its end: whether it came.
    fn join(self, patience: Duration) -> bool {
        let has_ended = self.end.recv_timeout(patience) != Err(RecvTimeoutError::Timeout);
        let name = self.handle.thread().name().unwrap_or_default().to_owned();
        if has_ended && self.handle.join().is_err() {
            tracing::error!("the thread {name} has panicked");
        }
        has_ended
    }
}

/// What replaces the values of queries, where the setting asks for that.
fn redactor(config: &Config) -> io::Result<Option<Arc<Redactor>>> {
    let redactor = config.redact_query.then(|| Redactor::open(&config.dir)).transpose()?;
    Ok(redactor.map(Arc::new))
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("{error}");
        }
    }
}
