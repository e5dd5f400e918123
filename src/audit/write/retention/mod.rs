//! Retention, on a thread of its own: compresses each closed file and writes its evidence index
//! beside it; removes files that are too old or too many from the beginning of the log, after a
//! `pruned` notice in the log, and with them the evidence that no other file in the directory
//! names.
//!
//! Every step leaves a state that the next round goes on from, so a crash costs nothing. Files that
//! another program has rotated away, as earlier versions let it, are read, and otherwise left alone.

mod closed_segment;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use super::active_file;
use super::writer_handle::{Closing, ForgetError, WriterHandle};
use crate::audit::CurrentConfig;
use crate::audit::evidence::{BlobName, EvidenceIndex, each_line};
use crate::audit::record::event::PrunedEvent;
use crate::audit::record::meta_record::{Notice, Pruned};
use crate::audit::tree::{Digest, TILES_NAME, Tiles, Tree};
use crate::runtime::clock::Clock;
use closed_segment::{Closed, Survey, at_path, bytes};

/// How long closed files of the log are left alone at most: some grow too old without another being
/// closed.
const KEEPER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The same where the log has a bound of size: evidence makes it larger without a file being
/// closed.
const KEEPER_SIZE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Pieces of evidence that the writer removes between two writes: a few milliseconds.
const EVIDENCE_FORGOTTEN_AT_ONCE: usize = 64;

pub(super) struct Retention {
    dir: PathBuf,
    config: CurrentConfig,
    clock: Arc<dyn Clock>,
    handle: WriterHandle,
    closings: mpsc::Receiver<Closing>,
    /// Those of files that the next round puts away.
    known: HashMap<u64, EvidenceIndex>,
    /// The number with which the file that is written begins. Changes when a file is closed or the
    /// settings are others, and ends with the writer.
    active: watch::Receiver<u64>,
    /// The number of the line up to which leaves of the tree are known to be kept.
    kept: u64,
    /// Held as long as files may be changed.
    _lock: File,
}

impl Retention {
    /// It ends with the writer of `handle`.
    pub fn new(
        config: CurrentConfig,
        clock: Arc<dyn Clock>,
        mut handle: WriterHandle,
        closings: mpsc::Receiver<Closing>,
        lock: File,
    ) -> Self {
        let (dir, active) = (config.load().dir.clone(), handle.active().clone());
        Self {
            dir,
            config,
            clock,
            handle,
            closings,
            known: HashMap::new(),
            active,
            kept: 0,
            _lock: lock,
        }
    }

    /// Begins with what is there.
    pub fn run(mut self, runtime: &Runtime) {
        let mut trouble = None;
        loop {
            let outcome = runtime.block_on(self.round());
            if self.is_over() {
                return;
            }
            say(outcome, &mut trouble);
            let interval = match self.config.load().retain_size {
                Some(_) => KEEPER_SIZE_INTERVAL,
                None => KEEPER_INTERVAL,
            };
            let changed = async { tokio::time::timeout(interval, self.active.changed()).await };
            if let Ok(Err(_)) = runtime.block_on(changed) {
                return;
            }
        }
    }

    /// Does what there is to do. What fails keeps nothing else from being done.
    async fn round(&mut self) -> io::Result<()> {
        // Taken before the look around: what is closed after it makes another round.
        let active = *self.active.borrow_and_update();
        let survey = Survey::of(&self.dir)?;
        let tidied = survey.remove_unfinished();
        self.known.extend(std::iter::from_fn(|| self.closings.try_recv().ok()));
        let put_away = |closed: &Closed| {
            closed.put_away(self.known.get(&closed.first_seq), &|| self.is_over())
        };
        // What the writer knows of a file that has only just its name is still to come.
        let is_known = |closed: &&Closed| closed.is_there() && closed.first_seq < active;
        let closed = survey.closed.iter().filter(is_known);
        let kept = closed.map(put_away).fold(tidied, io::Result::and);
        self.known.retain(|first_seq, _| *first_seq >= active);
        let kept = kept.and(self.keep_leaves());
        let pruned = self.prune_by_age(active).await;
        let made_room = self.prune_by_size(active).await;
        kept.and(pruned).and(made_room)
    }

    /// Keeps the leaves of closed files in the tiles beside them: those of lines that are pruned, so
    /// that what was published of them can still be checked.
    fn keep_leaves(&mut self) -> io::Result<()> {
        let closed = Survey::of(&self.dir)?.closed;
        let Some(last) = closed.iter().rfind(|closed| closed.is_there()) else { return Ok(()) };
        let size = last.evidence_index(&|| self.is_over())?.last.seq;
        if size <= self.kept {
            return Ok(());
        }
        let tiles = Tiles::of(&self.dir);
        let mut tree = Tree::of_tiles(&tiles, tiles.leaves(size))?;
        if tree.size() < size {
            let mut keep = |place, leaves: &[Digest]| tiles.keep(place, leaves);
            let kept = tree.extend(&self.dir, size, &|| self.is_over(), &mut keep);
            match kept.and_then(|()| tiles.keep_rest(&tree)) {
                // Room is made all the same: what lacks it would be missing in any case.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                kept => kept?,
            }
        }
        self.kept = size;
        Ok(())
    }

    /// The writer is gone, and whatever takes its time is to be left for the next start.
    fn is_over(&self) -> bool {
        self.active.has_changed().is_err()
    }

    // Removes lines from the beginning of the log that are too old (`audit.retain`) or for which there
    // is no room (`audit.retain_size`), and the evidence that only they named.

    /// Removes closed files whose last line is too old, oldest first, and the evidence that only they
    /// named. `active`: with which line the file that is written began before anything was looked at.
    async fn prune_by_age(&self, active: u64) -> io::Result<()> {
        if let Some(retain) = self.config.load().retain {
            let now = self.clock.wall();
            self.remove_while(|_, evidence_index| Ok(now.since(evidence_index.time) >= retain))
                .await?;
        }
        self.forget(active).await.map(drop)
    }

    /// Removes the oldest closed files until the log has room for the others. `active`: as above.
    async fn prune_by_size(&self, active: u64) -> io::Result<()> {
        let Some(size) = self.config.load().retain_size else { return Ok(()) };
        // The space that evidence frees is known only once it is removed: first the files in excess
        // without counting any, all at once, then one file after the other.
        let survey = Survey::of(&self.dir)?;
        let lines: u64 = survey.closed.iter().map(Closed::bytes).sum::<io::Result<_>>()?;
        let mut excess = lines.saturating_sub(size);
        loop {
            let mut freed = 0;
            let removed = self.remove_while(|closed, _| {
                let goes_on = freed < excess;
                freed += if goes_on { closed.bytes()? } else { 0 };
                Ok(goes_on)
            });
            let has_removed = removed.await?;
            let is_whole = self.forget(active).await?;
            if !is_whole || bytes_below(&self.dir)? <= size || (excess > 0 && !has_removed) {
                return Ok(());
            }
            // The next one, however small it is.
            excess = 1;
        }
    }

    /// Removes closed files from the oldest on while `goes` returns true, after a `pruned` notice.
    /// Returns whether there were any.
    async fn remove_while(
        &self,
        mut goes: impl FnMut(&Closed, &EvidenceIndex) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let now = self.clock.wall();
        let (mut old, mut last) = (Vec::new(), None);
        for closed in Survey::of(&self.dir)?.closed.into_iter().filter(Closed::is_there) {
            let evidence_index = closed.evidence_index(&|| self.is_over())?;
            if evidence_index.last.seq > self.kept || !goes(&closed, &evidence_index)? {
                break;
            }
            last = Some(evidence_index.last);
            old.push(closed);
        }
        let Some(last) = last else { return Ok(false) };
        let notice = Pruned {
            event: PrunedEvent::It,
            last_hash: last.hash,
            last_seq: last.seq,
            node: None,
            prev: String::new(),
            seq: 0,
            time: now,
        };
        self.handle.note(Notice::Pruned(notice)).await.map_err(io::Error::other)?;
        tracing::info!(
            last_seq = last.seq,
            files = old.len(),
            "old files of the denial log are removed"
        );
        old.iter().try_for_each(Closed::prune).map(|()| true)
    }

    /// Removes the evidence of pruned files by their indexes, unless another file names it. False:
    /// a file was closed in between, and another round has to search it.
    async fn forget(&self, active: u64) -> io::Result<bool> {
        let survey = Survey::of(&self.dir)?;
        for gone in survey.closed.iter().filter(|closed| closed.is_pruned()) {
            let mut names = gone.pruned()?.names;
            self.spare(&survey, &mut names)?;
            let names: Vec<_> = names.into_iter().collect();
            for names in names.chunks(EVIDENCE_FORGOTTEN_AT_ONCE) {
                match self.handle.forget(names.to_vec(), active).await {
                    Ok(_) => {}
                    Err(ForgetError::Outdated) => return Ok(false),
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
            gone.forget()?;
        }
        Ok(true)
    }

    /// Takes out the names that a remaining file has. One file after the other, so that memory
    /// holds the names of two files at most, however long the log.
    fn spare(&self, survey: &Survey, names: &mut HashSet<BlobName>) -> io::Result<()> {
        for kept in survey.closed.iter().filter(|closed| closed.is_there()) {
            if names.is_empty() {
                return Ok(());
            }
            kept.evidence_index(&|| self.is_over())?.names.iter().for_each(|name| {
                names.remove(name);
            });
        }
        for other in &survey.others {
            each_line(other, &|| self.is_over(), &mut |refs, _| {
                refs.blobs().for_each(|name| {
                    names.remove(&name);
                });
            })
            .map_err(at_path(other))?;
        }
        Ok(())
    }
}

/// Once when it begins, and once when it is over.
fn say(outcome: io::Result<()>, trouble: &mut Option<String>) {
    match outcome {
        Ok(()) => {
            if trouble.take().is_some() {
                tracing::info!("closed files of the denial log are looked after again");
            }
        }
        Err(error) => {
            let error = error.to_string();
            if trouble.as_ref() != Some(&error) {
                tracing::error!("closed files of the denial log stay as they are for now: {error}");
                *trouble = Some(error);
            }
        }
    }
}

/// Of all files below `dir`.
fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(at_path(dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(at_path(dir))?;
        if [active_file::NAME, TILES_NAME].iter().any(|name| entry.file_name() == *name) {
            // Neither log nor evidence: the one is there while a proxy runs, and removing lines makes
            // no less of the other.
            continue;
        }
        let is_dir = entry.file_type().map_err(at_path(dir))?.is_dir();
        sum += if is_dir { bytes_below(&entry.path())? } else { bytes(&entry.path())? };
    }
    Ok(sum)
}
