//! The thread that puts evidence on the disk: each piece is a file of its own, which takes longer than
//! a line of the log, and a record waits for that of its own origin only.

use std::io;

use tokio::sync::mpsc;

use crate::audit::evidence::{Exhibit, Shelf};

/// Pieces of evidence that are written at once: each waits for the disk, and they wait together.
const EVIDENCE_WRITERS_MAX: usize = 8;

/// Pieces that are written together.
pub(super) struct Batch {
    pub exhibits: Vec<Exhibit>,
    /// Whether their names are to be on the disk itself, too.
    pub is_durable: bool,
}

/// How it went with each.
pub(super) type Kept = Vec<(Exhibit, Result<(), io::Error>)>;

/// The way to the thread. It ends when this is dropped and what it has in hand is done.
#[derive(Debug)]
pub(super) struct EvidenceWriter {
    batches: mpsc::UnboundedSender<Batch>,
    kept: mpsc::UnboundedReceiver<Kept>,
}

impl EvidenceWriter {
    pub fn start(shelf: Shelf) -> io::Result<Self> {
        // Whoever sends waits for the answer before the next: there is one of each at most.
        let (batches, mut to_do) = mpsc::unbounded_channel::<Batch>();
        let (done, kept) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("audit-evidence".into()).spawn(move || {
            while let Some(batch) = to_do.blocking_recv() {
                if done.send(keep(&shelf, batch)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { batches, kept })
    }

    /// Gives the batch back where the thread has ended.
    pub fn send(&self, batch: Batch) -> Result<(), Batch> {
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

fn keep(shelf: &Shelf, batch: Batch) -> Kept {
    let put = put_all(shelf, &batch.exhibits);
    let mut kept: Kept = batch.exhibits.into_iter().zip(put).collect();
    if batch.is_durable {
        // Once for all that came together, those that were found there included: whoever put them may
        // have been killed before this.
        let there = kept.iter().filter(|(_, put)| put.is_ok()).map(|(exhibit, _)| exhibit);
        if let Err(error) = shelf.sync(there) {
            for (_, put) in kept.iter_mut().filter(|(_, put)| put.is_ok()) {
                *put = Err(io::Error::new(error.kind(), error.to_string()));
            }
        }
    }
    kept
}

/// Several at a time: each waits for the disk, and they wait together.
fn put_all(shelf: &Shelf, exhibits: &[Exhibit]) -> Vec<io::Result<()>> {
    let put =
        |share: &[Exhibit]| share.iter().map(|exhibit| shelf.put(exhibit)).collect::<Vec<_>>();
    if exhibits.len() < 2 {
        return put(exhibits);
    }
    std::thread::scope(|scope| {
        let shares = exhibits.chunks(exhibits.len().div_ceil(EVIDENCE_WRITERS_MAX));
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
