//! What the writer's thread is asked for, and what it answers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::audit::evidence::{Exhibit, ExhibitName};
use crate::audit::record::denial_record::Record;
use crate::audit::record::meta_record::Notice;

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
    /// It is not in the log, and a later line will say that it is missing.
    #[error("the denial record could not be written: {}", no_answer(*.0))]
    TimedOut(Duration),
    #[error("the denial record could not be written: the writer has stopped")]
    Stopped,
}

/// Why the end of the log may be missing.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the disk of the denial log does not answer: its last lines may not have reached it")]
pub struct CloseError;

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
    Note { notice: Box<Notice>, exhibits: Vec<Exhibit>, done: Done },
    Forget { names: Vec<ExhibitName>, files: u64, done: oneshot::Sender<Result<u64, ForgetError>> },
}

pub(super) type Done = oneshot::Sender<Result<Written, WriteError>>;

/// What is said of a disk that does not answer.
pub(super) fn no_answer(timeout: Duration) -> String {
    format!("the disk has not answered for {timeout:?} (audit.write_timeout)")
}
