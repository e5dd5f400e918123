//! The evidence that records name, as the writer keeps it: on the shelf before the record is in the
//! log, and there for as long as the file being written names it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;

use lru::LruCache;
use serde::Deserialize;

use super::record::{Record, Robots};
use crate::evidence::{Exhibit, Kind, Shelf};
use crate::limits::{EVIDENCE_KNOWN_MAX, EVIDENCE_WAITING_MAX, EVIDENCE_WRITERS_MAX};
use crate::text;

/// What a piece of evidence is found by: its kind, and the SHA-256 of its content.
pub type ExhibitName = (Kind, [u8; 32]);

#[derive(Debug)]
pub(super) struct Exhibits {
    shelf: Shelf,
    /// Whether their names are to be on the disk itself before any line that names them.
    durable: bool,
    /// On the shelf, as far as is remembered.
    known: LruCache<ExhibitName, ()>,
    /// Named by the file that is being written; as many as it has lines for, so its size bounds them.
    in_use: HashSet<ExhibitName>,
    /// Not on the shelf, because that could not be written.
    waiting: Vec<Exhibit>,
}

impl Exhibits {
    /// Beside a file that names `in_use`.
    pub fn new(audit_dir: &Path, durable: bool, in_use: HashSet<ExhibitName>) -> Self {
        let known_max = NonZeroUsize::new(EVIDENCE_KNOWN_MAX).expect("a bound is not zero");
        let (shelf, known) = (Shelf::of(audit_dir), LruCache::new(known_max));
        Self { shelf, durable, known, in_use, waiting: Vec::new() }
    }

    /// From now on, whether their names are to be on the disk before the lines.
    pub const fn set_durable(&mut self, durable: bool) {
        self.durable = durable;
    }

    /// Puts on the shelf what is not known to be there, and tells what could not be.
    pub fn keep(&mut self, exhibits: impl IntoIterator<Item = Exhibit>) -> Vec<io::Error> {
        let mut new = HashMap::new();
        for exhibit in exhibits {
            let name = (exhibit.kind, exhibit.sha256);
            if self.known.get(&name).is_none() {
                new.insert(name, exhibit);
            }
        }
        let (names, new): (Vec<_>, Vec<_>) = new.into_iter().unzip();
        let mut errors = Vec::new();
        let put = put_all(&self.shelf, &new);
        let is_on_disk = self.sync(new.iter().zip(&put)).map_err(|error| errors.push(error)).is_ok();
        for ((name, exhibit), put) in names.into_iter().zip(&new).zip(put) {
            self.waiting.retain(|waiting| (waiting.kind, waiting.sha256) != name);
            if put.is_ok() && is_on_disk {
                self.known.put(name, ());
            } else if self.waiting.len() < EVIDENCE_WAITING_MAX {
                self.waiting.push(exhibit.clone());
            }
            errors.extend(put.err());
        }
        errors
    }

    /// What has been put there is there after a power cut, too. Once for all that came together, those
    /// that were found there included: who put them may have been killed before this.
    fn sync<'a>(&self, put: impl Iterator<Item = (&'a Exhibit, &'a io::Result<()>)>) -> io::Result<()> {
        let there = put.filter(|(_, put)| put.is_ok()).map(|(exhibit, _)| exhibit);
        if self.durable { self.shelf.sync(there) } else { Ok(()) }
    }

    /// Tries what waits once more.
    pub fn retry(&mut self) -> Vec<io::Error> {
        self.keep(self.waiting.clone())
    }

    /// These have been named in the file.
    pub fn use_all(&mut self, names: impl IntoIterator<Item = ExhibitName>) {
        self.in_use.extend(names);
    }

    /// Another file is being written, which names `in_use`. Gives what the one before names.
    pub fn begin_file(&mut self, in_use: HashSet<ExhibitName>) -> HashSet<ExhibitName> {
        std::mem::replace(&mut self.in_use, in_use)
    }

    /// Removes what the file does not name, and tells how many pieces that were. One that is needed
    /// again is put there again.
    pub fn forget(&mut self, names: &[ExhibitName]) -> io::Result<u64> {
        let mut removed = 0;
        for name in names.iter().filter(|name| !self.in_use.contains(*name)) {
            self.known.pop(name);
            match std::fs::remove_file(self.shelf.path(name.0, &text::hex(&name.1))) {
                Ok(()) => removed += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }
}

/// Several at a time: each waits for the disk, and all who ask wait for all of them.
fn put_all(shelf: &Shelf, exhibits: &[Exhibit]) -> Vec<io::Result<()>> {
    let put = |share: &[Exhibit]| share.iter().map(|exhibit| shelf.put(exhibit)).collect::<Vec<_>>();
    if exhibits.len() < 2 {
        return put(exhibits);
    }
    std::thread::scope(|scope| {
        let shares = exhibits.chunks(exhibits.len().div_ceil(EVIDENCE_WRITERS_MAX));
        let threads: Vec<_> = shares
            .map(|share| (share, std::thread::Builder::new().spawn_scoped(scope, move || put(share))))
            .collect();
        threads
            .into_iter()
            .flat_map(|(share, thread)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No more threads are to be had; it only takes longer.
                Err(_) => put(share),
            })
            .collect()
    })
}

/// What of a record names its evidence: members of its `robots`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Naming<'a> {
    capture: Option<&'a str>,
    failed_capture: Option<&'a str>,
    sha256: Option<&'a str>,
}

impl<'a> Naming<'a> {
    /// What it names.
    pub fn exhibits(self) -> impl Iterator<Item = ExhibitName> + use<'a> {
        let Self { capture, failed_capture, sha256 } = self;
        [(Kind::File, sha256), (Kind::Capture, capture), (Kind::Capture, failed_capture)]
            .into_iter()
            .filter_map(|(kind, sha256)| Some((kind, text::digest(sha256?)?)))
    }
}

impl Record {
    /// The evidence that it can be checked against.
    pub fn exhibits(&self) -> impl Iterator<Item = ExhibitName> {
        self.robots.iter().flat_map(|robots| {
            let Robots { capture, failed_capture, sha256, .. } = &**robots;
            let [capture, failed_capture, sha256] =
                [capture, failed_capture, sha256].map(|digest| digest.as_deref());
            Naming { capture, failed_capture, sha256 }.exhibits()
        })
    }
}
