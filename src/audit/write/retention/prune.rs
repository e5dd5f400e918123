//! Removes lines from the beginning of the log that are too old (`audit.retain`) or for which there
//! is no room (`audit.retain_size`), and the evidence that only they named.

use std::collections::HashSet;
use std::path::Path;
use std::{fs, io};

use super::Retention;
use super::closed_segment::{Closed, Survey};
use super::file_error::{at, bytes};
use crate::audit::evidence::{BlobName, EvidenceIndex, each_line};
use crate::audit::record::meta_event::PrunedEvent;
use crate::audit::record::meta_record::{Notice, Pruned};
use crate::audit::write::message::ForgetError;
use crate::audit::write::reserve;

/// Pieces of evidence that the writer removes between two writes: a few milliseconds.
const EVIDENCE_FORGOTTEN_AT_ONCE: usize = 64;

impl Retention {
    /// Removes closed files whose last line is too old, oldest first, and the evidence that only they
    /// named. `files`: how many had been begun before anything was looked at.
    pub(super) async fn prune_by_age(&self, files: u64) -> io::Result<()> {
        if let Some(retain) = self.config.load().retain {
            let now = self.clock.wall();
            self.remove_while(|_, evidence_index| Ok(now.since(evidence_index.time) >= retain))
                .await?;
        }
        self.forget(files).await.map(drop)
    }

    /// Removes the oldest closed files until the log has room for the others. `files`: as above.
    pub(super) async fn prune_by_size(&self, files: u64) -> io::Result<()> {
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
            let is_whole = self.forget(files).await?;
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
            if !goes(&closed, &evidence_index)? {
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
    async fn forget(&self, files: u64) -> io::Result<bool> {
        let survey = Survey::of(&self.dir)?;
        for gone in survey.closed.iter().filter(|closed| closed.is_pruned()) {
            let mut names = gone.pruned()?.names;
            self.spare(&survey, &mut names)?;
            let names: Vec<_> = names.into_iter().collect();
            for names in names.chunks(EVIDENCE_FORGOTTEN_AT_ONCE) {
                match self.handle.forget(names.to_vec(), files).await {
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
        for (other, _) in &survey.others {
            each_line(other, &|| self.is_over(), &mut |refs, _| {
                refs.blobs().for_each(|name| {
                    names.remove(&name);
                });
            })
            .map_err(at(other))?;
        }
        // Files that change their names while one looks can be missed.
        if Survey::of(&self.dir)?.others == survey.others {
            Ok(())
        } else {
            Err(io::Error::other("another program is rotating them"))
        }
    }
}

/// Of all files below `dir`.
fn bytes_below(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(at(dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(at(dir))?;
        if entry.file_name() == reserve::NAME {
            // It is there while a proxy runs, and is neither log nor evidence.
            continue;
        }
        let is_dir = entry.file_type().map_err(at(dir))?.is_dir();
        sum += if is_dir { bytes_below(&entry.path())? } else { bytes(&entry.path())? };
    }
    Ok(sum)
}
