//! A weak handle on the writer, for retention.

use tokio::sync::{mpsc, oneshot, watch};

use super::message::{ForgetError, Job, WriteError, Written};
use crate::audit::evidence::BlobName;
use crate::audit::record::meta_record::Notice;

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
