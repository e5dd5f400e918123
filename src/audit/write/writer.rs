//! The writer's public interface. One thread owns the file; a caller waits until the line of its
//! record is with the operating system, so that no denial is sent before its record. Callers that
//! wait at the same time share one write (group commit).

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout_at;

use super::health::{Health, Status};
use super::recover::{LogDir, find_head, find_log, find_settings, open_active};
use super::retention::Retention;
use super::writer_handle::{
    CloseError, Done, Events, Job, NOTICES_WAITING_MAX, OpenError, Signals, WRITE_TIMEOUT,
    WriteError, WriterHandle, Written,
};
use super::writer_thread::WriterThread;
use crate::audit::checkpoint::NoteSigner;
use crate::audit::evidence::{Blob, BlobStore, Found, Kind};
use crate::audit::record::denial_record::{Allowed, Record};
use crate::audit::record::meta_record::Notice;
use crate::audit::record::redact::Redactor;
use crate::audit::{Config, CurrentConfig, RECORDS_WAITING_MAX};
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;
use crate::types::sanitize::hex;

/// How long a starting writer tries to lock the directory of records: a reader that checks whether
/// a writer runs holds the lock for an instant.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// Closed files whose evidence index waits in memory for retention; for any more, retention reads
/// the file.
const CLOSINGS_WAITING_MAX: usize = 1;

/// How long a disk that answers may take for the last lines, at least.
const END_TIME_MIN: Duration = Duration::from_secs(1);

/// The writer, shared by all threads and runtimes. Dropping it closes it.
#[derive(Debug)]
pub struct Writer {
    queue: mpsc::Sender<Job>,
    signals: Arc<Signals>,
    active_first: watch::Receiver<u64>,
    config: CurrentConfig,
    status: Arc<Status>,
    clock: Arc<dyn Clock>,
    threads: Lock<Option<Threads>>,
    redactor: ArcSwapOption<Redactor>,
    /// The settings that were in effect when the log was written before: their SHA-256.
    settings_before: Option<[u8; 32]>,
}

/// The threads of a writer.
#[derive(Debug)]
struct Threads {
    writer: Thread,
    /// Retention: looks after closed files, and ends with the writer.
    retention: Thread,
}

/// A thread that never ends if the disk does not answer.
#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    /// Disconnected when the thread ends.
    end: std::sync::mpsc::Receiver<()>,
}

impl Writer {
    /// Opens the directory for this process alone, and makes it if need be.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let config: CurrentConfig = Arc::new(ArcSwap::from_pointee(config));
        let set = config.load_full();
        let dir: &Path = &set.dir;
        let failed = |source| OpenError::Io { path: dir.to_owned(), source };
        let log_dir = LogDir::take(dir, LOCK_PATIENCE).map_err(failed)?;
        let log_dir = log_dir.ok_or_else(|| OpenError::Locked(dir.to_owned()))?;
        let redactor = Redactor::open(&set).map_err(failed)?.map(Arc::new).into();
        let active = open_active(dir, clock.wall()).map_err(failed)?;
        let head = find_head(dir, &active).map_err(failed)?;
        let log = find_log(dir, &active).map_err(failed)?;
        let settings_before = find_settings(dir, &active);
        let signer = set.key.as_deref().map(open_key).transpose()?.flatten().map(Arc::new);
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(failed);
        let (queue, jobs) = mpsc::channel(RECORDS_WAITING_MAX);
        let (status, signals) =
            (Arc::new(Status::new(set.on_failure)), Arc::new(Signals::default()));
        let first = active.first.map_or(head.seq + 1, |first| first.seq);
        let (begun, active_first) = watch::channel(first);
        let (closed, closings) = mpsc::channel(CLOSINGS_WAITING_MAX);
        let retention_lock = log_dir.share().map_err(failed)?;
        let writer_thread = WriterThread::new(
            Arc::clone(&config),
            Arc::clone(&clock),
            active,
            (head, log, log_dir, signer),
            Arc::clone(&signals),
            Arc::clone(&status),
            Events { active: begun, closed },
        );
        let (writer_thread, writer_runtime) = (writer_thread.map_err(failed)?, runtime()?);
        let thread = Thread::start("audit", move || writer_thread.run(&writer_runtime, jobs))
            .map_err(failed)?;
        let handle = WriterHandle { queue: queue.downgrade(), active: active_first.clone() };
        let retention = Retention::new(
            Arc::clone(&config),
            Arc::clone(&clock),
            handle,
            closings,
            retention_lock,
        );
        let runtime = runtime()?;
        let retention =
            Thread::start("audit-keeper", move || retention.run(&runtime)).map_err(failed)?;
        let threads = Lock::new(Some(Threads { writer: thread, retention }));
        Ok(Self {
            queue,
            signals,
            active_first,
            config,
            status,
            clock,
            threads,
            redactor,
            settings_before,
        })
    }

    /// Writes one record and returns when its line is with the operating system: a process that is
    /// killed afterwards has not lost it. Those of `blobs` that are not stored yet are stored
    /// before the line. After an error the next record is tried as usual. Where the disk does not
    /// answer within `WRITE_TIMEOUT`, the line may still be written late, and until it answers no
    /// other record is taken.
    pub async fn write(&self, record: Record, blobs: Vec<Blob>) -> Result<Written, WriteError> {
        let mut record = Box::new(record);
        if let Some(redactor) = &*self.redactor.load() {
            redactor.record(&mut record);
        }
        self.ask(1, |done| Job::Write { record, blobs, done }).await
    }

    /// Writes the line of an allowed request, as [`Self::write`] does.
    pub async fn write_allowed(
        &self,
        allowed: Allowed,
        blobs: Vec<Blob>,
    ) -> Result<Written, WriteError> {
        let mut notice = Box::new(Notice::Allowed(allowed));
        self.redact_notice(&mut notice);
        self.ask(1, |done| Job::Note { notice, blobs, done }).await
    }

    fn redact_notice(&self, notice: &mut Notice) {
        if let Some(redactor) = &*self.redactor.load() {
            redactor.notice(notice);
        }
    }

    /// `records`: how many are lost where the job is not taken.
    async fn ask(
        &self,
        records: u64,
        job: impl FnOnce(Done) -> Job,
    ) -> Result<Written, WriteError> {
        if self.status.is_hanging() {
            let error = WriteError::NoAnswer;
            self.status.lose(records, &error.to_string(), self.clock.wall());
            return Err(error);
        }
        let deadline = tokio::time::Instant::from_std(monotonic() + WRITE_TIMEOUT);
        let (done, answered) = oneshot::channel();
        match timeout_at(deadline, self.queue.send(job(done))).await {
            Ok(Ok(())) => match timeout_at(deadline, answered).await {
                Ok(answer) => answer.unwrap_or(Err(WriteError::Stopped)),
                Err(_) => Err(self.status.note_no_answer()),
            },
            Ok(Err(_)) => Err(WriteError::Stopped),
            // The queue is full, so it will not be written late either.
            Err(_) => {
                let error = self.status.note_no_answer();
                self.status.lose(records, &error.to_string(), self.clock.wall());
                Err(error)
            }
        }
    }

    /// `record` as its line has it: unchanged, or redacted (`audit.clients`, `audit.redact_paths`,
    /// `audit.redact_query`).
    pub fn redacted<'a>(&self, record: &'a Record) -> Cow<'a, Record> {
        match &*self.redactor.load() {
            Some(redactor) => {
                let mut record = record.clone();
                redactor.record(&mut record);
                Cow::Owned(record)
            }
            None => Cow::Borrowed(record),
        }
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        self.note_with(notice, Vec::new()).await
    }

    /// Writes a line that is no record, after those of `blobs` that are not stored yet.
    pub async fn note_with(&self, notice: Notice, blobs: Vec<Blob>) -> Result<Written, WriteError> {
        let mut notice = Box::new(notice);
        self.redact_notice(&mut notice);
        self.ask(0, |done| Job::Note { notice, blobs, done }).await
    }

    /// Queues a notice, to be written before any later record, as soon as that is possible. False:
    /// it was dropped, because too many wait already.
    pub fn queue_notice(&self, notice: Notice) -> bool {
        self.queue_notice_with(notice, Vec::new())
    }

    /// The same, with the evidence that it names, which is stored before it.
    pub fn queue_notice_with(&self, notice: Notice, blobs: Vec<Blob>) -> bool {
        self.queue_each([(notice, blobs)])
    }

    /// The same for several, of which all or none are dropped.
    pub fn queue_notices(&self, several: impl IntoIterator<Item = Notice>) -> bool {
        self.queue_each(several.into_iter().map(|notice| (notice, Vec::new())))
    }

    fn queue_each(&self, several: impl IntoIterator<Item = (Notice, Vec<Blob>)>) -> bool {
        let several = several.into_iter().map(|(mut notice, blobs)| {
            self.redact_notice(&mut notice);
            (notice, blobs)
        });
        let mut notices = self.signals.notices.lock();
        let has_room = notices.len() < NOTICES_WAITING_MAX;
        if has_room {
            notices.extend(several);
        }
        drop(notices);
        self.signals.notice.notify_one();
        has_room
    }

    /// Queues notices to be written when the writer is closed, behind all other lines.
    pub fn queue_last_notices(&self, notices: impl IntoIterator<Item = Notice>) {
        self.signals.last_notices.lock().extend(notices);
    }

    /// Whether no request may be served now: records cannot be written, and `audit.on_failure` is
    /// `stop`.
    pub fn is_stopped(&self) -> bool {
        self.status.is_stopped()
    }

    /// Takes over other settings, apart from the directory. On error nothing has changed.
    pub fn change(&self, config: Config) -> Result<(), OpenError> {
        let config = Config { dir: self.config.load().dir.clone(), ..config };
        let failed = |source| OpenError::Io { path: config.dir.clone(), source };
        self.redactor.store(Redactor::open(&config).map_err(failed)?.map(Arc::new));
        self.status.change(config.on_failure);
        self.config.store(Arc::new(config));
        self.signals.changed.notify_one();
        Ok(())
    }

    /// Notes that the log lacks lines that a witness has seen, and why that is thought: it stays so
    /// for the life of the process.
    pub fn note_rewound(&self, why: &str) {
        tracing::error!("{why}");
        self.status.update(|health| health.rewound = Some(why.to_owned()));
    }

    /// The settings that were in effect when the log was written before, in canonical form; none where it does not
    /// name them, or they are not kept any more.
    pub fn settings_before(&self) -> Option<Vec<u8>> {
        let sha256 = hex(&self.settings_before?);
        match BlobStore::of(&self.dir()).get(Kind::Settings, &sha256) {
            Ok(Found::Content(content)) => Some(content),
            _ => None,
        }
    }

    /// Counts a checkpoint that was published, or that could not be.
    pub fn note_publishing(&self, is_published: bool) {
        self.status.update(|health| {
            health.published += u64::from(is_published);
            health.publish_failures += u64::from(!is_published);
        });
    }

    /// The directory of the log.
    pub fn dir(&self) -> PathBuf {
        self.config.load().dir.clone()
    }

    /// The current health of the log.
    pub fn health(&self) -> Health {
        self.status.health()
    }

    /// A handle that keeps no writer alive.
    pub fn handle(&self) -> WriterHandle {
        WriterHandle { queue: self.queue.downgrade(), active: self.active_first.clone() }
    }

    /// Writes all queued lines, syncs them to the disk, and ends the threads; later writes fail.
    ///
    /// # Errors
    ///
    /// The disk does not answer within `WRITE_TIMEOUT`, or has not answered before: a thread
    /// blocked on the disk cannot be ended, and is left behind. Or something could not be written.
    pub fn close(&self) -> Result<(), CloseError> {
        self.close_by(monotonic() + 2 * WRITE_TIMEOUT)
    }

    /// The same, waiting for the disk no longer than until `deadline`.
    pub fn close_by(&self, deadline: Instant) -> Result<(), CloseError> {
        let Some(threads) = self.threads.lock().take() else {
            return Ok(());
        };
        // One that answers has a moment for the last lines, whatever has taken the time before.
        let is_stuck = self.status.busy_for() > END_TIME_MIN;
        let deadline = if is_stuck { deadline } else { deadline.max(monotonic() + END_TIME_MIN) };
        *self.signals.end_by.lock() = Some(deadline);
        self.signals.end.notify_one();
        let max_wait = || {
            let left = deadline.saturating_duration_since(monotonic());
            if self.status.is_hanging() { Duration::ZERO } else { left.min(WRITE_TIMEOUT) }
        };
        // The end of the writer's thread ends retention, too.
        let has_ended = threads.writer.join(max_wait()) && threads.retention.join(max_wait());
        match self.health() {
            _ if !has_ended => Err(CloseError::NoAnswer),
            Health { ended_failing: true, lost, .. } => Err(CloseError::NotWritten { lost }),
            _ => Ok(()),
        }
    }
}

impl Thread {
    fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (ending, end) = std::sync::mpsc::channel();
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Dropped when the thread ends, also by a panic.
            let _ending = ending;
            run();
        })?;
        Ok(Self { handle, end })
    }

    /// Waits for the end of the thread; false after `max_wait`.
    fn join(self, max_wait: Duration) -> bool {
        let has_ended = self.end.recv_timeout(max_wait) != Err(RecvTimeoutError::Timeout);
        let name = self.handle.thread().name().unwrap_or_default().to_owned();
        if has_ended && self.handle.join().is_err() {
            tracing::error!("the thread {name} has panicked");
        }
        has_ended
    }
}

fn open_key(file: &Path) -> Result<Option<NoteSigner>, OpenError> {
    NoteSigner::open(file).map_err(|source| OpenError::Key { path: file.to_owned(), source })
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("{error}");
        }
    }
}
