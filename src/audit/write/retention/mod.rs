//! Retention, on a thread of its own: compresses each closed file and writes its evidence index
//! beside it; removes files that are too old or too many from the beginning of the log, after a
//! `pruned` notice in the log, and with them the evidence that no other file in the directory
//! names.
//!
//! Every step leaves a state that the next round goes on from, so a crash costs nothing. Files that
//! another program has rotated away are read, and otherwise left alone.

mod closed_segment;
mod file_error;
mod prune;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

use crate::audit::config::CurrentConfig;
use crate::audit::write::handle::WriterHandle;
use crate::audit::write::signals::Closing;
use crate::runtime::clock::Clock;
use closed_segment::{Closed, Survey};

/// How long closed files of the log are left alone at most: some grow too old without another being
/// closed.
const KEEPER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The same where the log has a bound of size: evidence makes it larger without a file being
/// closed.
const KEEPER_SIZE_INTERVAL: Duration = Duration::from_secs(10 * 60);

pub(super) struct Retention {
    dir: PathBuf,
    config: CurrentConfig,
    clock: Arc<dyn Clock>,
    handle: WriterHandle,
    closings: mpsc::Receiver<Closing>,
    /// Changes when a file is closed or the settings are others, and ends with the writer.
    files: watch::Receiver<u64>,
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
        let (dir, files) = (config.load().dir.clone(), handle.files().clone());
        Self { dir, config, clock, handle, closings, files, _lock: lock }
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
            let changed = async { tokio::time::timeout(interval, self.files.changed()).await };
            if let Ok(Err(_)) = runtime.block_on(changed) {
                return;
            }
        }
    }

    /// Does what there is to do. What fails keeps nothing else from being done.
    async fn round(&mut self) -> io::Result<()> {
        // Taken before the look around: what is closed after it makes another round.
        let files = *self.files.borrow_and_update();
        let survey = Survey::of(&self.dir)?;
        let tidied = survey.remove_unfinished();
        let known: HashMap<_, _> = std::iter::from_fn(|| self.closings.try_recv().ok()).collect();
        let put_away =
            |closed: &Closed| closed.put_away(known.get(&closed.first_seq), &|| self.is_over());
        let closed = survey.closed.iter().filter(|closed| closed.is_there());
        let kept = closed.map(put_away).fold(tidied, io::Result::and);
        let pruned = self.prune_by_age(files).await;
        let made_room = self.prune_by_size(files).await;
        kept.and(pruned).and(made_room)
    }

    /// The writer is gone, and whatever takes its time is to be left for the next start.
    fn is_over(&self) -> bool {
        self.files.has_changed().is_err()
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
