//! What is older than it is kept goes: lines from the beginning of the log, and the evidence that
//! only they named.

use std::collections::HashSet;
use std::io;

use super::closed::{Closed, Survey};
use super::inventory::each_line;
use super::{Keeper, at};
use crate::audit::exhibits::ExhibitName;
use crate::audit::notice::{Notice, Pruned, PrunedEvent};
use crate::audit::writer::ForgetError;
use crate::limits::EVIDENCE_FORGOTTEN_AT_ONCE;

impl Keeper {
    /// Removes closed files whose last line is too old, oldest first, once the log has said so.
    pub(super) async fn prune(&self) -> io::Result<()> {
        let Some(retain) = self.config.load().retain else { return Ok(()) };
        let now = self.clock.wall();
        let (mut old, mut last) = (Vec::new(), None);
        for closed in Survey::of(&self.dir)?.closed.into_iter().filter(Closed::is_there) {
            let inventory = closed.inventory(&|| self.is_over())?;
            if now.since(inventory.time) < retain {
                break;
            }
            last = Some(inventory.last);
            old.push(closed);
        }
        let Some(last) = last else { return Ok(()) };
        let notice = Pruned {
            event: PrunedEvent::It,
            last_hash: last.hash,
            last_seq: last.seq,
            prev: String::new(),
            seq: 0,
            time: now,
        };
        self.desk.note(Notice::Pruned(notice)).await.map_err(io::Error::other)?;
        tracing::info!(last_seq = last.seq, files = old.len(), "old files of the denial log are removed");
        old.iter().try_for_each(Closed::prune)
    }

    /// Removes the evidence of files that were pruned, as their inventories tell, unless another file
    /// names it. `files`: how many had been begun before anything was looked at.
    pub(super) async fn forget(&self, files: u64) -> io::Result<()> {
        let survey = Survey::of(&self.dir)?;
        for gone in survey.closed.iter().filter(|closed| closed.is_pruned()) {
            let mut names = gone.pruned()?.names;
            self.spare(&survey, &mut names)?;
            let names: Vec<_> = names.into_iter().collect();
            for names in names.chunks(EVIDENCE_FORGOTTEN_AT_ONCE) {
                match self.desk.forget(names.to_vec(), files).await {
                    Ok(_) => {}
                    // A file was closed meanwhile; the round that this makes will see what it names.
                    Err(ForgetError::Outdated) => return Ok(()),
                    Err(error) => return Err(io::Error::other(error)),
                }
            }
            gone.forget()?;
        }
        Ok(())
    }

    /// Takes out what a file that is still there names. One file after the other, so that memory
    /// holds the names of two files at most, however long the log.
    fn spare(&self, survey: &Survey, names: &mut HashSet<ExhibitName>) -> io::Result<()> {
        for kept in survey.closed.iter().filter(|closed| closed.is_there()) {
            if names.is_empty() {
                return Ok(());
            }
            kept.inventory(&|| self.is_over())?.names.iter().for_each(|name| {
                names.remove(name);
            });
        }
        for (other, _) in &survey.others {
            each_line(other, &|| self.is_over(), &mut |told, _| {
                told.exhibits().for_each(|name| {
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
