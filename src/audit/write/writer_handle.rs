//! How jobs reach the writer's thread, and what becomes of them: the queue, the signals beside it,
//! and the errors. A system call that does not return cannot be ended, so a caller waits for its line
//! no longer than [`WRITE_TIMEOUT`].

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::audit::evidence::{Blob, BlobName, EvidenceIndex};
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::Notice;
use crate::runtime::lock::Lock;

/// How long a caller waits for its line; then the disk counts as hanging until it answers. A disk that
/// works takes milliseconds, a busy network disk a few seconds; and clients wait for their answer.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a record waits for its evidence to be stored, before it is written without: half of
/// [`WRITE_TIMEOUT`], so that evidence which hangs costs no caller its record.
pub(crate) const EVIDENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Notices of the denial log about the proxy itself that wait to be written, as on a full disk; the counts of
/// an hour come together, and are no more than that they are queued once.
pub(crate) const NOTICES_WAITING_MAX: usize = 128;

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
    /// Of its checkpoints.
    #[error("cannot use the key of the denial log in {}", path.display())]
    Key { path: PathBuf, source: io::Error },
}

/// Why a record was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// A later `gap` counts it. The request is denied all the same.
    #[error("the denial record could not be written: {0}")]
    Io(Arc<io::Error>),
    /// The disk does not answer. Either the record is written late, when it does, or a later `gap`
    /// counts it; so no response may say that there is a denial.
    #[error("the denial record could not be written: {}", no_answer())]
    NoAnswer,
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
    Forget { names: Vec<BlobName>, active: u64, done: oneshot::Sender<Result<u64, ForgetError>> },
}

pub(super) type Done = oneshot::Sender<Result<Written, WriteError>>;

/// The message for a disk that does not answer.
pub(super) fn no_answer() -> String {
    format!("the disk has not responded for {WRITE_TIMEOUT:?}")
}

/// Sends jobs to the writer without keeping it alive.
#[derive(Clone, Debug)]
pub struct WriterHandle {
    pub(super) queue: mpsc::WeakSender<Job>,
    pub(super) active: watch::Receiver<u64>,
}

impl WriterHandle {
    /// The number in the chain with which the file that is written begins; changes when a file is
    /// closed. An error of [`watch::Receiver::changed`] is the end of the writer.
    pub fn active(&mut self) -> &mut watch::Receiver<u64> {
        &mut self.active
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        let (notice, blobs) = (Box::new(notice), Vec::new());
        self.ask(|done| Job::Note { notice, blobs, done }).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Removes evidence that no closed file names, unless the active file does; returns how many
    /// blobs were removed. `active` is what [`Self::active`] was when the closed files were searched:
    /// if one was closed since, nothing is removed, and they have to be searched again.
    pub async fn forget(&self, names: Vec<BlobName>, active: u64) -> Result<u64, ForgetError> {
        let job = |done| Job::Forget { names, active, done };
        self.ask(job).await.unwrap_or(Err(ForgetError::Stopped))
    }

    /// Queues a job and waits for its outcome; `None` when there is no writer any more.
    async fn ask<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> Job) -> Option<T> {
        let (done, answered) = oneshot::channel();
        self.queue.upgrade()?.send(job(done)).await.ok()?;
        answered.await.ok()
    }
}

/// A closed file: the number of its first line, and its evidence index.
pub type Closing = (u64, EvidenceIndex);

/// Events of the files, for other threads.
pub(super) struct Events {
    /// The number with which the file that is written begins; set when all is known of those before.
    pub active: watch::Sender<u64>,
    /// The evidence index of each file that was closed.
    pub closed: mpsc::Sender<Closing>,
}

/// What reaches the thread beside its jobs.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// The settings have changed.
    pub changed: Notify,
    /// A notice was queued.
    pub notice: Notify,
    /// Write what is queued, then end.
    pub end: Notify,
    /// The writer is to have ended by then; none while it goes on.
    pub end_by: Lock<Option<Instant>>,
    /// Notices that wait to be written, before any record, however long that takes; each with its evidence.
    pub notices: Lock<Vec<(Notice, Vec<Blob>)>>,
    /// Those that are to be written last.
    pub last_notices: Lock<Vec<Notice>>,
}
