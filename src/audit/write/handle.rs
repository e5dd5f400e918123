//! A handle on the writer for the thread that looks after its closed files.

use tokio::sync::{mpsc, oneshot, watch};

use super::message::{ForgetError, Job, WriteError, Written};
use crate::audit::evidence::ExhibitName;
use crate::audit::record::meta_record::Notice;

/// The writer, for whoever looks after its closed files. It keeps no writer alive.
#[derive(Clone, Debug)]
pub struct Desk {
    pub(super) queue: mpsc::WeakSender<Job>,
    pub(super) files: watch::Receiver<u64>,
}

impl Desk {
    /// How many files have been begun since the writer was opened; it changes when one is closed. An
    /// error of [`watch::Receiver::changed`] is the end of the writer.
    pub fn files(&mut self) -> &mut watch::Receiver<u64> {
        &mut self.files
    }

    /// Writes a line that is no record.
    pub async fn note(&self, notice: Notice) -> Result<Written, WriteError> {
        let (notice, exhibits) = (Box::new(notice), Vec::new());
        let job = |done| Job::Note { notice, exhibits, done };
        ask(self.queue.upgrade().as_ref(), job).await.unwrap_or(Err(WriteError::Stopped))
    }

    /// Removes evidence that no line of a closed file names, unless the file being written does; tells
    /// how many pieces are gone. `files` is the number of files begun when those closed were looked
    /// through: were there more since, nothing is removed, and they have to be looked through again.
    pub async fn forget(&self, names: Vec<ExhibitName>, files: u64) -> Result<u64, ForgetError> {
        let job = |done| Job::Forget { names, files, done };
        ask(self.queue.upgrade().as_ref(), job).await.unwrap_or(Err(ForgetError::Stopped))
    }
}

/// Puts a job in the queue, and waits for what comes of it; `None` when there is no writer any more.
pub(super) async fn ask<T>(
    queue: Option<&mpsc::Sender<Job>>,
    job: impl FnOnce(oneshot::Sender<T>) -> Job,
) -> Option<T> {
    let (done, answered) = oneshot::channel();
    queue?.send(job(done)).await.ok()?;
    answered.await.ok()
}
