//! What the file of the state directory has of origins, beyond memory and restarts, for all processes
//! of the directory (`engine::local`).
//!
//! Promises: no request waits for a write, and none waits longer for a read than the file's operations
//! may take; what is read was written, or is nothing; a file that cannot be used is logged, counted, and
//! done without.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer::Answer;
use super::counters::Report;
use super::entry::Entry;
use super::persisted::{Blobs, Digest, Persisted, PublishedEntry};
use crate::engine::{
    FileDigest, KnownOrigin, LeaseToken, LocalEngine, LocalFile, LocalFileError, LocalHealth,
};
use crate::pace::{KeptLane, LaneView};
use crate::types::origin::Origin;

/// What is known of origins, in the file.
#[derive(Clone, Debug)]
pub struct Disk(pub Arc<LocalEngine>);

impl Disk {
    /// Has the entry of `origin` written.
    pub(super) fn put(&self, origin: &Origin, entry: &Arc<Entry>) {
        let written = Arc::clone(entry);
        self.0.keep(origin, entry.token, entry.weight(), move || {
            let files = written.answers().filter_map(Answer::snapshot);
            let files = files.map(|snapshot| (snapshot.sha256, snapshot.body.clone())).collect();
            (PublishedEntry::of(&written).write(), files)
        });
    }

    /// What the file has of `origin`, which requests are about to be sent to.
    pub(super) async fn find(&self, origin: &Origin) -> Option<Found> {
        Found::of(self.0.known(origin, named_files).await.ok()??)
    }

    /// The counts of the file.
    pub fn health(&self) -> LocalHealth {
        self.0.health()
    }

    /// The file, read beside the process's own work.
    pub fn open(&self) -> Result<Option<Offline>, LocalFileError> {
        Ok(self.0.open_file()?.map(|file| Offline { file }))
    }
}

/// What the file has of an origin.
pub(super) struct Found {
    pub token: LeaseToken,
    pub persisted: Persisted,
    pub blobs: Blobs,
}

impl Found {
    /// `None`: it is not whole, or of a later version.
    fn of(known: KnownOrigin) -> Option<Self> {
        let KnownOrigin { token, value, files } = known;
        let (persisted, blobs) = PublishedEntry::read(&value)?.parts(files)?;
        Some(Self { token, persisted, blobs })
    }

    pub(super) fn report(&self, origin: &Origin) -> Report {
        Report::new(origin.to_string(), self.persisted.clone(), &self.blobs)
    }
}

fn named_files(value: &[u8]) -> Option<Vec<FileDigest>> {
    let files = PublishedEntry::read(value)?.files();
    Some(files.into_iter().map(|Digest(sha256)| sha256).collect())
}

/// Receives what is known of one origin.
pub type Each<'a> = &'a mut dyn FnMut(Report) -> io::Result<()>;

/// The amount of data in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Origins.
    pub entries: u64,
    /// robots.txt files, each counted once.
    pub files: u64,
    /// Bytes of what is kept.
    pub bytes: u64,
    /// Bytes of the file, free pages included.
    pub file_bytes: u64,
    /// The number of states of each kind. An origin has one per profile, and more if agents were
    /// distinguished.
    pub states: BTreeMap<String, u64>,
    /// Origins whose row is broken.
    pub broken: u64,
}

/// Why there is no store to be read.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    #[error(transparent)]
    File(#[from] LocalFileError),
}

/// The file, for commands.
#[derive(Debug)]
pub struct Offline {
    file: LocalFile,
}

impl Offline {
    /// The file of a state directory, which is not made.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be used.
    pub fn open(state_dir: &Path) -> Result<Self, OpenError> {
        let missing = || OpenError::Missing(LocalFile::path(state_dir));
        Ok(Self { file: LocalFile::open(state_dir)?.ok_or_else(missing)? })
    }

    /// The amount of stored data.
    pub fn stats(&self) -> Result<Stats, OpenError> {
        let mut states = BTreeMap::new();
        let mut unread = 0;
        let broken = self.file.for_each(|_, _, value| {
            let Some(entry) = PublishedEntry::read(value) else {
                unread += 1;
                return true;
            };
            let of_agents = entry.known.agents.into_iter().flat_map(|agent| agent.states);
            for kept in entry.known.states.into_iter().chain(of_agents) {
                *states.entry(kept.state).or_default() += 1;
            }
            true
        })?;
        let ((entries, files), (bytes, file_bytes)) = (self.file.counts()?, self.file.bytes()?);
        Ok(Stats { entries, files, bytes, file_bytes, states, broken: broken + unread })
    }

    /// What is known of an origin, with what lies ahead of its lane.
    pub fn get(&self, origin: &Origin) -> Result<Option<Report>, OpenError> {
        let found = self.file.known(origin, named_files)?.and_then(Found::of);
        let pace = self.lane(origin)?;
        let report = found.map(|found| found.report(origin));
        let report = report.or_else(|| pace.is_some().then(|| Report::unknown(origin)));
        Ok(report.map(|report| Report { pace, ..report }))
    }

    /// What lies ahead of the lane of an origin; `None`: nothing.
    fn lane(&self, origin: &Origin) -> Result<Option<LaneView>, OpenError> {
        let ahead = KeptLane::from(self.file.lane(origin)?);
        Ok((ahead != KeptLane::default()).then_some(LaneView { ahead, waiting: 0 }))
    }

    /// Returns whether anything was known of the origin, or it was held.
    pub fn forget(&self, origin: &Origin) -> Result<bool, OpenError> {
        Ok(self.file.forget(origin)?)
    }

    /// Calls `each` for every origin, without the line count of its file; returns how many rows were
    /// broken. The inner error is the one of `each`.
    pub fn export(&self, each: Each<'_>) -> Result<io::Result<u64>, OpenError> {
        let (mut unread, mut outcome) = (0, Ok(()));
        let broken = self.file.for_each(|origin, _, value| {
            match PublishedEntry::read(value) {
                Some(entry) => {
                    outcome = each(Report::new(origin.to_owned(), entry.known, &Blobs::new()));
                }
                None => unread += 1,
            }
            outcome.is_ok()
        })?;
        Ok(outcome.map(|()| broken + unread))
    }

    /// Shrinks the file. Returns its size in bytes before and after.
    pub fn compact(&self) -> Result<(u64, u64), OpenError> {
        let (_, before) = self.file.bytes()?;
        self.file.compact()?;
        let (_, after) = self.file.bytes()?;
        Ok((before, after))
    }
}
