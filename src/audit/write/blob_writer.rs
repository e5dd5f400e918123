//! The thread that stores blobs: each is a file of its own, which takes longer than a line of the
//! log. A record waits for its own blobs only.

use std::io;

use tokio::sync::mpsc;

use crate::audit::evidence::{Blob, BlobStore};

/// Pieces of evidence that are written at once: each waits for the disk, and they wait together.
const EVIDENCE_WRITERS_MAX: usize = 8;

/// Pieces that are written together.
pub(super) struct BlobBatch {
    pub blobs: Vec<Blob>,
    /// Whether their names are to be on the disk itself, too.
    pub is_durable: bool,
}

/// How it went with each.
pub(super) type Kept = Vec<(Blob, Result<(), io::Error>)>;

/// The way to the thread. It ends when this is dropped and what it has in hand is done.
#[derive(Debug)]
pub(super) struct BlobWriter {
    batches: mpsc::UnboundedSender<BlobBatch>,
    kept: mpsc::UnboundedReceiver<Kept>,
}

impl BlobWriter {
    /// Starts the thread that writes blobs.
    pub fn start(blob_store: BlobStore) -> io::Result<Self> {
        // The sender waits for the answer before the next batch: each queue holds one at most.
        let (batches, mut to_do) = mpsc::unbounded_channel::<BlobBatch>();
        let (done, kept) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("audit-evidence".into()).spawn(move || {
            while let Some(batch) = to_do.blocking_recv() {
                if done.send(keep(&blob_store, batch)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { batches, kept })
    }

    /// Gives the batch back where the thread has ended.
    pub fn send(&self, batch: BlobBatch) -> Result<(), BlobBatch> {
        self.batches.send(batch).map_err(|returned| returned.0)
    }

    /// The next that is done; never, where none is under way.
    pub async fn done(&mut self) -> Kept {
        match self.kept.recv().await {
            Some(kept) => kept,
            None => std::future::pending().await,
        }
    }
}

fn keep(blob_store: &BlobStore, batch: BlobBatch) -> Kept {
    let put = put_all(blob_store, &batch.blobs);
    let mut kept: Kept = batch.blobs.into_iter().zip(put).collect();
    if batch.is_durable {
        // Once for the whole batch, blobs that were there before included: the process that stored
        // them may have been killed before its sync.
        let there = kept.iter().filter(|(_, put)| put.is_ok()).map(|(blob, _)| blob);
        if let Err(error) = blob_store.sync(there) {
            for (_, put) in kept.iter_mut().filter(|(_, put)| put.is_ok()) {
                *put = Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
    }
    kept
}

/// Several at a time: each waits for the disk, and they wait together.
fn put_all(blob_store: &BlobStore, blobs: &[Blob]) -> Vec<io::Result<()>> {
    let put = |share: &[Blob]| share.iter().map(|blob| blob_store.put(blob)).collect::<Vec<_>>();
    if blobs.len() < 2 {
        return put(blobs);
    }
    std::thread::scope(|scope| {
        let shares = blobs.chunks(blobs.len().div_ceil(EVIDENCE_WRITERS_MAX));
        let threads: Vec<_> = shares
            .map(|share| {
                (share, std::thread::Builder::new().spawn_scoped(scope, move || put(share)))
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|(share, thread)| match thread {
                Ok(thread) => {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // No more threads are to be had; it only takes longer.
                Err(_) => put(share),
            })
            .collect()
    })
}
