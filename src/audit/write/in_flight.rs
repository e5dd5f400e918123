//! State that the writer's thread shares with its watchdog: the queue of jobs, the start of the
//! operation on the disk that is under way, and the requests that wait for it. A system call that
//! does not return cannot be ended, but the requests that wait for it can be answered.

use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use std::{io, mem};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::health::{Status, Trouble};
use crate::audit::CurrentConfig;
use crate::audit::evidence::{Blob, BlobName, EvidenceIndex};
use crate::audit::record::chain::Content;
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::Notice;
use crate::audit::segment::FILE_NAME;
use crate::runtime::clock::{Clock, monotonic};
use crate::runtime::lock::Lock;

/// Notices of the denial log about the proxy itself that wait to be written, as on a full disk.
pub(crate) const NOTICES_WAITING_MAX: usize = 128;

/// How long before its end the writer stops waiting for evidence.
const END_TIME: Duration = Duration::from_millis(500);

/// Shared by the writer's thread and its watchdog.
#[derive(Debug)]
pub(super) struct InFlight {
    config: CurrentConfig,
    clock: Arc<dyn Clock>,
    status: Arc<Status>,
    /// Locked by the writer's thread while it waits for jobs, and by the watchdog while that thread
    /// is blocked on the disk.
    jobs: Lock<mpsc::Receiver<Job>>,
    held: Lock<Held>,
    /// When the writer is to have ended; none while it goes on.
    end: Lock<Option<Instant>>,
    /// A step has begun.
    pub begun: Notify,
    /// A step that took too long has ended after all.
    pub returned: Notify,
}

#[derive(Debug, Default)]
struct Held {
    /// When the step under way began; none while the thread waits for jobs.
    since: Option<Instant>,
    /// The step timed out, and the requests that waited for it have been answered.
    is_given_up: bool,
    /// Taken from the queue, and not looked at yet.
    jobs: Vec<Job>,
    /// Of the lines that are being written, in their order.
    unanswered: Vec<Unanswered>,
    /// Lines that wait for their evidence.
    waiting: Vec<Waiting>,
    /// Notices that wait to be written, before any record, however long that takes.
    notices: Vec<Notice>,
    /// Those that are to be written last.
    last_notices: Vec<Notice>,
}

/// The caller that waits for a line.
#[derive(Debug)]
pub(super) struct Unanswered {
    /// None for the writer's own notices.
    pub done: Option<Done>,
    pub is_record: bool,
}

/// A line that is to be written once its evidence is kept.
#[derive(Debug)]
pub(super) struct Waiting {
    pub content: Content,
    pub done: Done,
    /// Blobs that are not stored yet.
    pub missing: Vec<BlobName>,
}

impl InFlight {
    /// No work, and this queue of `jobs`.
    pub fn new(
        config: CurrentConfig,
        clock: Arc<dyn Clock>,
        status: Arc<Status>,
        jobs: mpsc::Receiver<Job>,
    ) -> Self {
        let (jobs, held, end) = (Lock::new(jobs), Lock::default(), Lock::default());
        let (begun, returned) = (Notify::new(), Notify::new());
        Self { config, clock, status, jobs, held, end, begun, returned }
    }

    /// The queue, for as long as the guard lives.
    pub fn jobs(&self) -> MutexGuard<'_, mpsc::Receiver<Job>> {
        self.jobs.lock()
    }

    /// How long a step may take (`audit.write_timeout`).
    pub fn timeout(&self) -> Duration {
        self.config.load().write_timeout
    }

    /// The writer is to end by then.
    pub fn end_by(&self, end: Instant) {
        *self.end.lock() = Some(end);
    }

    /// Until when evidence may be waited for: a while before the end, so that the last lines come
    /// into the log.
    pub fn end_of_evidence(&self) -> Option<Instant> {
        (*self.end.lock())?.checked_sub(END_TIME)
    }

    /// Begins a step, an operation on the disk. Returns whether the step before was given up.
    pub fn begin_step(&self) -> bool {
        let was_given_up = self.settle(Some(monotonic()));
        self.begun.notify_one();
        was_given_up
    }

    /// Ends the step under way. Returns whether it was given up.
    pub fn end_step(&self) -> bool {
        self.settle(None)
    }

    fn settle(&self, since: Option<Instant>) -> bool {
        let mut held = self.held();
        held.since = since;
        let was_given_up = mem::take(&mut held.is_given_up);
        drop(held);
        if was_given_up {
            self.returned.notify_one();
        }
        was_given_up
    }

    /// Ends all work: every queued or waiting job is answered with an error.
    pub fn end(&self) {
        self.end_step();
        drop(mem::take(&mut *self.held()));
        let mut jobs = self.jobs();
        jobs.close();
        while jobs.try_recv().is_ok() {}
    }

    /// Whether the step under way has taken too long.
    pub fn is_given_up(&self) -> bool {
        self.held().is_given_up
    }

    /// The start of the step under way; none while there is none, or once it was given up.
    pub fn since(&self) -> Option<Instant> {
        let held = self.held();
        held.since.filter(|_| !held.is_given_up)
    }

    /// Shares jobs that were taken from the queue.
    pub fn put_jobs(&self, jobs: &mut Vec<Job>) {
        self.held().jobs.append(jobs);
    }

    /// Moves the shared jobs back into `jobs`; none after the step was given up, since they have
    /// been refused.
    pub fn take_jobs(&self, jobs: &mut Vec<Job>) {
        jobs.append(&mut self.held().jobs);
    }

    /// Sets the callers that wait for the step.
    pub fn hold(&self, unanswered: Vec<Unanswered>) {
        self.held().unanswered = unanswered;
    }

    /// The callers that wait for the step, to be answered; none after it was given up: they were
    /// answered that nothing was written, so the caller must undo its write.
    pub fn release(&self) -> Option<Vec<Unanswered>> {
        let mut held = self.held();
        let (unanswered, is_given_up) = (mem::take(&mut held.unanswered), held.is_given_up);
        drop(held);
        if !is_given_up {
            return Some(unanswered);
        }
        // Callers added after it was given up.
        self.refuse(unanswered.into_iter());
        None
    }

    /// Queues a notice to be written as soon as possible. False: too many wait already.
    pub fn queue_notice(&self, notice: Notice) -> bool {
        let mut held = self.held();
        let has_room = held.notices.len() < NOTICES_WAITING_MAX;
        if has_room {
            held.notices.push(notice);
        }
        has_room
    }

    /// Queues a notice to be written last.
    pub fn queue_last_notice(&self, notice: Notice) {
        self.held().last_notices.push(notice);
    }

    /// The queued notices, unless the writer itself has `waiting` ones up to the limit.
    pub fn take_notices(&self, waiting: usize) -> Vec<Notice> {
        let mut held = self.held();
        if waiting < NOTICES_WAITING_MAX { mem::take(&mut held.notices) } else { Vec::new() }
    }

    /// All notices that are left, in the order in which they are to be written.
    pub fn take_last_notices(&self) -> Vec<Notice> {
        let mut held = self.held();
        let mut notices = mem::take(&mut held.notices);
        notices.append(&mut held.last_notices);
        notices
    }

    /// Waits for its evidence.
    pub fn wait_for_evidence(&self, waiting: Waiting) {
        self.held().waiting.push(waiting);
    }

    /// How many lines wait for their evidence.
    pub fn waiting(&self) -> usize {
        self.held().waiting.len()
    }

    /// Evidence named by waiting lines, which must not be removed.
    pub fn names_of_waiting(&self) -> Vec<BlobName> {
        self.held().waiting.iter().flat_map(|waiting| waiting.content.blobs()).collect()
    }

    /// Takes the lines that wait for nothing else once `settled` is done.
    pub fn take_ready(&self, settled: &[BlobName]) -> Vec<Waiting> {
        let mut held = self.held();
        for waiting in &mut held.waiting {
            waiting.missing.retain(|name| !settled.contains(name));
        }
        held.waiting.extract_if(.., |waiting| waiting.missing.is_empty()).collect()
    }

    /// Gives up a step that has taken too long: the callers are answered that nothing was written,
    /// and the records are counted as lost. The step counts as failed even if it succeeds later.
    pub fn give_up(&self) {
        let mut held = self.held();
        held.is_given_up = true;
        let (unanswered, waiting) = (mem::take(&mut held.unanswered), mem::take(&mut held.waiting));
        let jobs = mem::take(&mut held.jobs);
        drop(held);
        self.status.update(|health| health.errors += 1);
        let path = self.config.load().dir.join(FILE_NAME);
        self.status.begin(
            Trouble::Records,
            &format!("to {}: {}", path.display(), self.why()),
            None,
        );
        let waiting = waiting.into_iter().map(Waiting::unanswered);
        self.refuse(unanswered.into_iter().chain(waiting));
        jobs.into_iter().for_each(|job| self.refuse_job(job));
    }

    /// Answers a job that arrives while the thread is blocked on the disk.
    pub fn refuse_job(&self, job: Job) {
        match job {
            Job::Write { done, .. } => {
                self.refuse(std::iter::once(Unanswered { done: Some(done), is_record: true }));
            }
            Job::Note { done, .. } => {
                self.refuse(std::iter::once(Unanswered { done: Some(done), is_record: false }));
            }
            Job::Forget { done, .. } => {
                let _ = done.send(Err(ForgetError::Io(std::io::ErrorKind::TimedOut.into())));
            }
        }
    }

    fn refuse(&self, unanswered: impl Iterator<Item = Unanswered>) {
        let unanswered: Vec<_> = unanswered.collect();
        let records = unanswered.iter().filter(|it| it.is_record).count() as u64;
        // Counted before the callers are answered.
        self.status.lose(records, &self.why(), self.clock.wall());
        answer(unanswered, &Err(WriteError::TimedOut(self.timeout())));
    }

    fn why(&self) -> String {
        no_answer(self.timeout())
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock()
    }
}

impl Waiting {
    fn unanswered(self) -> Unanswered {
        Unanswered { is_record: matches!(self.content, Content::Record(_)), done: Some(self.done) }
    }
}

/// Answers each caller; with places only if the lines were written.
pub(super) fn answer(unanswered: Vec<Unanswered>, outcome: &Result<Vec<Written>, WriteError>) {
    for (at, done) in unanswered.into_iter().enumerate().filter_map(|(at, it)| Some((at, it.done?)))
    {
        // The caller may have gone; the line stands.
        let _ = done.send(outcome.as_ref().map(|places| places[at]).map_err(Clone::clone));
    }
}

/// A line's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its number in the chain, from 1.
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
    /// The disk did not answer in time. The record is not in the log; a later `gap` counts it.
    #[error("the denial record could not be written: {}", no_answer(*.0))]
    TimedOut(Duration),
    #[error("the denial record could not be written: the writer has stopped")]
    Stopped,
}

/// Why the end of the log may be missing.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum CloseError {
    #[error("the disk of the denial log does not answer: its last lines may not have reached it")]
    NoAnswer,
    /// At the end; `lost` records of this process are missing from the log.
    #[error(
        "the disk of the denial log cannot be written: {lost} records, and perhaps evidence, are lost"
    )]
    NotWritten { lost: u64 },
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

/// A job, with the channel for its outcome.
#[derive(Debug)]
pub(super) enum Job {
    Write { record: Box<Record>, blobs: Vec<Blob>, done: Done },
    Note { notice: Box<Notice>, blobs: Vec<Blob>, done: Done },
    Forget { names: Vec<BlobName>, files: u64, done: oneshot::Sender<Result<u64, ForgetError>> },
}

pub(super) type Done = oneshot::Sender<Result<Written, WriteError>>;

/// The message for a disk that does not answer.
pub(super) fn no_answer(timeout: Duration) -> String {
    format!("the disk has not responded for {timeout:?} (audit.write_timeout)")
}

/// Sends jobs to the writer without keeping it alive.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    pub(super) queue: mpsc::WeakSender<Job>,
    pub(super) files: watch::Receiver<u64>,
}

impl WriterHandle {
    /// The number of files begun since the writer was opened; changes when one is closed. An error
    /// of [`watch::Receiver::changed`] is the end of the writer.
    pub fn files(&mut self) -> &mut watch::Receiver<u64> {
        &mut self.files
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        let (notice, blobs) = (Box::new(notice), Vec::new());
        let job = |done| Job::Note { notice, blobs, done };
        ask(self.queue.upgrade().as_ref(), job).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Removes evidence that no closed file names, unless the active file does; returns how many
    /// blobs were removed. `files` is the number of files begun when the closed ones were searched:
    /// if more were begun since, nothing is removed, and they have to be searched again.
    pub async fn forget(&self, names: Vec<BlobName>, files: u64) -> Result<u64, ForgetError> {
        let job = |done| Job::Forget { names, files, done };
        ask(self.queue.upgrade().as_ref(), job).await.unwrap_or(Err(ForgetError::Stopped))
    }
}

/// Queues a job and waits for its outcome; `None` when there is no writer any more.
pub(super) async fn ask<T>(
    queue: Option<&mpsc::Sender<Job>>,
    job: impl FnOnce(oneshot::Sender<T>) -> Job,
) -> Option<T> {
    let (done, answered) = oneshot::channel();
    queue?.send(job(done)).await.ok()?;
    answered.await.ok()
}

/// A closed file: the number of its first line, and its evidence index.
pub type Closing = (u64, EvidenceIndex);

/// Events of the files, for other threads.
pub(super) struct Events {
    /// How many files have been begun.
    pub files: watch::Sender<u64>,
    /// The evidence index of each file that was closed.
    pub closed: mpsc::Sender<Closing>,
}

/// Signals to the thread beside its jobs.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Reopen the file: another program may have renamed it.
    pub hang_up: Notify,
    /// The settings have changed.
    pub changed: Notify,
    /// A notice was queued.
    pub notice: Notify,
    /// Write what is queued, then end.
    pub end: Notify,
}
