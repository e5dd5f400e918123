//! The jobs of the writer's thread, their outcomes and errors.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::audit::evidence::{Blob, BlobName};
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::Notice;

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
