//! Tracks which blobs are stored: each is stored before a record that names it is in the log, and
//! for as long as the active file names it. The blob writer's thread stores them; only records that
//! name a new blob wait for it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::mpsc;

use crate::audit::evidence::{Blob, BlobName, BlobStore};
use crate::runtime::clock::monotonic;
use crate::types::sanitize;

/// Blobs that are known to be stored without a look at the disk.
const EVIDENCE_KNOWN_MAX: usize = 16_384;

/// Blobs that are synced together, since their directories are synced once for all: a record waits
/// for at most twice as many.
const EVIDENCE_TOGETHER_MAX: usize = 1024;

/// Blobs that could not be stored and are retried; any more are retried with the next record that
/// names them.
const EVIDENCE_WAITING_MAX: usize = 64;

/// Blobs that could not be stored and are named in the log as lost; a capture has about a record's
/// length, so no more are expected of an hour.
const EVIDENCE_UNKEPT_MAX: usize = 16_384;

#[derive(Debug)]
pub(super) struct BlobTracker {
    blob_store: BlobStore,
    writer: BlobWriter,
    /// Whether their names are to be on the disk itself before any line that names them.
    durable: bool,
    /// Blobs known to be stored.
    known: LruCache<BlobName, ()>,
    /// Named by the file that is being written; as many as it has lines for, so its size bounds them.
    in_use: HashSet<BlobName>,
    /// Blobs for the next batch; the records that wait for them bound their number.
    new: HashMap<BlobName, Blob>,
    /// Their names, in the order in which they came.
    order: VecDeque<BlobName>,
    /// What that thread has in hand.
    under_way: Option<UnderWay>,
    /// Blobs that could not be stored.
    failed: Vec<Blob>,
    /// Names of those that could not be stored, and have not been since.
    unkept: BTreeSet<BlobName>,
}

/// What is being written.
#[derive(Debug)]
struct UnderWay {
    since: Instant,
    names: HashSet<BlobName>,
    /// It takes too long, and is no longer waited for.
    is_given_up: bool,
}

impl BlobTracker {
    /// Beside a file that names `in_use`.
    pub fn new(audit_dir: &Path, durable: bool, in_use: HashSet<BlobName>) -> io::Result<Self> {
        let known_max = NonZeroUsize::new(EVIDENCE_KNOWN_MAX).expect("a bound is not zero");
        let (blob_store, known) = (BlobStore::of(audit_dir), LruCache::new(known_max));
        let writer = BlobWriter::start(blob_store.clone())?;
        let (new, order, under_way, failed) = (HashMap::new(), VecDeque::new(), None, Vec::new());
        let unkept = BTreeSet::new();
        Ok(Self {
            blob_store,
            writer,
            durable,
            known,
            in_use,
            new,
            order,
            under_way,
            failed,
            unkept,
        })
    }

    /// From now on, whether their names are to be on the disk before the lines.
    pub const fn set_durable(&mut self, durable: bool) {
        self.durable = durable;
    }

    /// Queues the blobs that are not known to be stored; returns those that a record naming them
    /// has to wait for. While the disk does not answer these are none: they are retried when it
    /// does.
    pub fn require(&mut self, blobs: impl IntoIterator<Item = Blob>) -> Vec<BlobName> {
        let mut missing = Vec::new();
        for blob in blobs {
            let name = (blob.kind, blob.sha256);
            if self.known.get(&name).is_some() {
                continue;
            }
            match &self.under_way {
                Some(under_way) if under_way.is_given_up => self.note_failed(blob),
                Some(under_way) if under_way.names.contains(&name) => missing.push(name),
                _ => {
                    self.add(name, blob);
                    missing.push(name);
                }
            }
        }
        missing
    }

    /// Sends new blobs to the blob writer, if it is idle.
    pub fn start(&mut self) {
        if self.under_way.is_some() || self.new.is_empty() {
            return;
        }
        let count = self.order.len().min(EVIDENCE_TOGETHER_MAX);
        let names: HashSet<_> = self.order.drain(..count).collect();
        let blobs = names.iter().filter_map(|name| self.new.remove(name)).collect();
        self.under_way = Some(UnderWay { since: monotonic(), names, is_given_up: false });
        // If the thread has ended, the batch times out, which reports it.
        let _ = self.writer.send(BlobBatch { blobs, is_durable: self.durable });
    }

    /// The next finished batch, for [`Self::settle`].
    pub async fn done(&mut self) -> Kept {
        self.writer.done().await
    }

    /// Takes over the outcome of a batch: returns the blobs that no record has to wait for any
    /// more, and the errors.
    pub fn settle(&mut self, kept: Kept) -> (Vec<BlobName>, Vec<io::Error>) {
        let (mut settled, mut errors) = (Vec::new(), Vec::new());
        for (blob, put) in kept {
            let name = (blob.kind, blob.sha256);
            settled.push(name);
            match put {
                Ok(()) => {
                    self.failed.retain(|failed| (failed.kind, failed.sha256) != name);
                    self.unkept.remove(&name);
                    self.known.put(name, ());
                }
                Err(error) => {
                    self.note_failed(blob);
                    errors.push(error);
                }
            }
        }
        if self.under_way.take().is_some_and(|under_way| under_way.is_given_up) {
            self.retry();
        }
        self.start();
        (settled, errors)
    }

    /// When waiting for the batch under way ends.
    pub fn end_of_waiting(&self, max_wait: Duration) -> Option<Instant> {
        let waited_for = self.under_way.as_ref().filter(|under_way| !under_way.is_given_up);
        waited_for.map(|under_way| under_way.since + max_wait)
    }

    /// Stops all waiting until the disk answers; returns the blobs concerned.
    pub fn give_up(&mut self) -> Vec<BlobName> {
        let Some(under_way) = &mut self.under_way else { return Vec::new() };
        self.unkept.extend(under_way.names.iter().copied());
        under_way.is_given_up = true;
        let mut names: Vec<_> = under_way.names.iter().copied().collect();
        self.order.clear();
        for (name, blob) in std::mem::take(&mut self.new) {
            names.push(name);
            self.note_failed(blob);
        }
        names
    }

    /// Whether some could not be kept, or not yet.
    pub fn is_failing(&self) -> bool {
        !self.failed.is_empty()
            || self.under_way.as_ref().is_some_and(|under_way| under_way.is_given_up)
    }

    /// Names of blobs that are not stored, and that lines may name; they are given once.
    pub fn take_unkept(&mut self) -> BTreeSet<BlobName> {
        std::mem::take(&mut self.unkept)
    }

    /// Tries those once more that failed.
    pub fn retry(&mut self) {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.is_given_up) {
            return;
        }
        // They stay among the failed until they are kept.
        for blob in self.failed.clone() {
            self.add((blob.kind, blob.sha256), blob);
        }
        self.start();
    }

    /// These have been named in the file.
    pub fn use_all(&mut self, names: impl IntoIterator<Item = BlobName>) {
        self.in_use.extend(names);
    }

    /// An empty file is being written. Gives what the one before names.
    pub fn begin_file(&mut self) -> HashSet<BlobName> {
        std::mem::take(&mut self.in_use)
    }

    /// Removes those blobs that neither the active file nor a waiting record names; returns how
    /// many. A blob that is needed again is stored again.
    pub fn forget(&mut self, names: &[BlobName], waiting: &[BlobName]) -> io::Result<u64> {
        let mut removed = 0;
        for name in
            names.iter().filter(|name| !self.in_use.contains(*name) && !waiting.contains(*name))
        {
            if self.under_way.as_ref().is_some_and(|under_way| under_way.names.contains(name)) {
                continue;
            }
            self.known.pop(name);
            match std::fs::remove_file(self.blob_store.path(name.0, &sanitize::hex(&name.1))) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    fn add(&mut self, name: BlobName, blob: Blob) {
        if self.new.insert(name, blob).is_none() {
            self.order.push_back(name);
        }
    }

    /// A few wait for the disk; others for the next record that names them.
    fn note_failed(&mut self, blob: Blob) {
        let name = (blob.kind, blob.sha256);
        if self.unkept.len() < EVIDENCE_UNKEPT_MAX {
            self.unkept.insert(name);
        }
        let is_noted = self.failed.iter().any(|failed| (failed.kind, failed.sha256) == name);
        if !is_noted && self.failed.len() < EVIDENCE_WAITING_MAX {
            self.failed.push(blob);
        }
    }
}

// The thread that stores blobs: each is a file of its own, which takes longer than a line of the
// log. A record waits for its own blobs only.

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
