//! The evidence that records name, as the writer keeps it: on the shelf before the record is in the
//! log, and there for as long as the file being written names it. A thread of its own writes it, and
//! only the records that name a new piece wait for that.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use lru::LruCache;

use super::blob_writer::{Batch, EvidenceWriter, Kept};
use crate::audit::evidence::{Exhibit, ExhibitName, Shelf};
use crate::runtime::clock::monotonic;
use crate::types::sanitize;

/// Pieces of evidence that are known to be kept, without a look at the disk.
const EVIDENCE_KNOWN_MAX: usize = 16_384;

/// Pieces of evidence that are brought to the disk together, for what they share is brought there once: a
/// record waits for those that came before its own, and no longer than for twice as many.
const EVIDENCE_TOGETHER_MAX: usize = 1024;

/// Pieces of evidence that could not be kept and wait for the disk; others wait for the next record
/// that names them.
const EVIDENCE_WAITING_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Exhibits {
    shelf: Shelf,
    writer: EvidenceWriter,
    /// Whether their names are to be on the disk itself before any line that names them.
    durable: bool,
    /// On the shelf, as far as is remembered.
    known: LruCache<ExhibitName, ()>,
    /// Named by the file that is being written; as many as it has lines for, so its size bounds them.
    in_use: HashSet<ExhibitName>,
    /// To be given to the thread that writes them; those who wait for them bound them.
    new: HashMap<ExhibitName, Exhibit>,
    /// Their names, in the order in which they came.
    order: VecDeque<ExhibitName>,
    /// What that thread has in hand.
    under_way: Option<UnderWay>,
    /// Not on the shelf, because that could not be written.
    failed: Vec<Exhibit>,
}

/// What is being written.
#[derive(Debug)]
struct UnderWay {
    since: Instant,
    names: HashSet<ExhibitName>,
    /// It takes too long, and is no longer waited for.
    is_given_up: bool,
}

impl Exhibits {
    /// Beside a file that names `in_use`.
    pub fn new(audit_dir: &Path, durable: bool, in_use: HashSet<ExhibitName>) -> io::Result<Self> {
        let known_max = NonZeroUsize::new(EVIDENCE_KNOWN_MAX).expect("a bound is not zero");
        let (shelf, known) = (Shelf::of(audit_dir), LruCache::new(known_max));
        let writer = EvidenceWriter::start(shelf.clone())?;
        let (new, order, under_way, failed) = (HashMap::new(), VecDeque::new(), None, Vec::new());
        Ok(Self { shelf, writer, durable, known, in_use, new, order, under_way, failed })
    }

    /// From now on, whether their names are to be on the disk before the lines.
    pub const fn set_durable(&mut self, durable: bool) {
        self.durable = durable;
    }

    /// Has those kept that are not known to be, and tells which a record that names them has to wait
    /// for. While the disk does not answer that is none: they are tried again when it does.
    pub fn require(&mut self, exhibits: impl IntoIterator<Item = Exhibit>) -> Vec<ExhibitName> {
        let mut missing = Vec::new();
        for exhibit in exhibits {
            let name = (exhibit.kind, exhibit.sha256);
            if self.known.get(&name).is_some() {
                continue;
            }
            match &self.under_way {
                Some(under_way) if under_way.is_given_up => self.note_failed(exhibit),
                Some(under_way) if under_way.names.contains(&name) => missing.push(name),
                _ => {
                    self.add(name, exhibit);
                    missing.push(name);
                }
            }
        }
        missing
    }

    /// Gives the thread what is new, if it has nothing to do.
    pub fn start(&mut self) {
        if self.under_way.is_some() || self.new.is_empty() {
            return;
        }
        let count = self.order.len().min(EVIDENCE_TOGETHER_MAX);
        let names: HashSet<_> = self.order.drain(..count).collect();
        let exhibits = names.iter().filter_map(|name| self.new.remove(name)).collect();
        self.under_way = Some(UnderWay { since: monotonic(), names, is_given_up: false });
        // A thread that has ended takes too long, and is noticed by that.
        let _ = self.writer.send(Batch { exhibits, is_durable: self.durable });
    }

    /// The next that is done, for [`Self::settle`].
    pub async fn done(&mut self) -> Kept {
        self.writer.done().await
    }

    /// Takes note of what was done: which pieces nobody has to wait for any more, and what failed.
    pub fn settle(&mut self, kept: Kept) -> (Vec<ExhibitName>, Vec<io::Error>) {
        let (mut settled, mut errors) = (Vec::new(), Vec::new());
        for (exhibit, put) in kept {
            let name = (exhibit.kind, exhibit.sha256);
            settled.push(name);
            match put {
                Ok(()) => {
                    self.failed.retain(|failed| (failed.kind, failed.sha256) != name);
                    self.known.put(name, ());
                }
                Err(error) => {
                    self.note_failed(exhibit);
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

    /// When that is no longer waited for which is under way.
    pub fn end_of_waiting(&self, patience: Duration) -> Option<Instant> {
        let waited_for = self.under_way.as_ref().filter(|under_way| !under_way.is_given_up);
        waited_for.map(|under_way| under_way.since + patience)
    }

    /// From now on nothing is waited for until the disk answers; which pieces that concerns.
    pub fn give_up(&mut self) -> Vec<ExhibitName> {
        let Some(under_way) = &mut self.under_way else { return Vec::new() };
        under_way.is_given_up = true;
        let mut names: Vec<_> = under_way.names.iter().copied().collect();
        self.order.clear();
        for (name, exhibit) in std::mem::take(&mut self.new) {
            names.push(name);
            self.note_failed(exhibit);
        }
        names
    }

    /// Whether some could not be kept, or not yet.
    pub fn is_failing(&self) -> bool {
        !self.failed.is_empty()
            || self.under_way.as_ref().is_some_and(|under_way| under_way.is_given_up)
    }

    /// Tries those once more that failed.
    pub fn retry(&mut self) {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.is_given_up) {
            return;
        }
        // They stay among the failed until they are kept.
        for exhibit in self.failed.clone() {
            self.add((exhibit.kind, exhibit.sha256), exhibit);
        }
        self.start();
    }

    /// These have been named in the file.
    pub fn use_all(&mut self, names: impl IntoIterator<Item = ExhibitName>) {
        self.in_use.extend(names);
    }

    /// Another file is being written, which names `in_use`. Gives what the one before names.
    pub fn begin_file(&mut self, in_use: HashSet<ExhibitName>) -> HashSet<ExhibitName> {
        std::mem::replace(&mut self.in_use, in_use)
    }

    /// Another directory is at the path: what is known of the one before is not kept there.
    pub fn begin_directory(&mut self) {
        self.known.clear();
    }

    /// Removes what neither the file nor a record names that is about to be written, and tells how many
    /// pieces that were. One that is needed again is put there again.
    pub fn forget(&mut self, names: &[ExhibitName], waiting: &[ExhibitName]) -> io::Result<u64> {
        let mut removed = 0;
        for name in
            names.iter().filter(|name| !self.in_use.contains(*name) && !waiting.contains(*name))
        {
            if self.under_way.as_ref().is_some_and(|under_way| under_way.names.contains(name)) {
                continue;
            }
            self.known.pop(name);
            match std::fs::remove_file(self.shelf.path(name.0, &sanitize::hex(&name.1))) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    fn add(&mut self, name: ExhibitName, exhibit: Exhibit) {
        if self.new.insert(name, exhibit).is_none() {
            self.order.push_back(name);
        }
    }

    /// A few wait for the disk; others for the next record that names them.
    fn note_failed(&mut self, exhibit: Exhibit) {
        let name = (exhibit.kind, exhibit.sha256);
        let is_noted = self.failed.iter().any(|failed| (failed.kind, failed.sha256) == name);
        if !is_noted && self.failed.len() < EVIDENCE_WAITING_MAX {
            self.failed.push(exhibit);
        }
    }
}
