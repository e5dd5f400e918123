//! Looking through all that is kept, with a proxy at work on it or without one.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::Report;
use super::super::restore::Blobs;
use super::Disk;
use super::file::DatabaseFile;
use super::migrate::SCHEMA_VERSION;
use super::trouble::{OpenError, Trouble, guarded};
use crate::store::limits::STORE_CLOSE_TIMEOUT;

/// Takes what is known of one origin.
pub type Each<'a> = &'a mut dyn FnMut(Report) -> io::Result<()>;

/// How much there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Origins.
    pub entries: u64,
    /// Files and captures, each counted once.
    pub blobs: u64,
    /// Bytes of what is kept, without what the database needs around it.
    pub bytes: u64,
    pub file_bytes: u64,
    /// The version of how it is kept.
    pub schema: u64,
    /// How many states there are of each kind; an origin has one for each profile, and more where agents were
    /// told apart.
    pub states: BTreeMap<String, u64>,
    /// Origins of which what is kept does not hold.
    pub broken: u64,
}

impl Stats {
    pub(super) fn of(file: &DatabaseFile) -> Result<Self, Trouble> {
        let mut states = BTreeMap::new();
        let counted = file.for_each(|_, knowledge| {
            let of_agents = knowledge.agents.into_iter().flat_map(|agent| agent.states);
            for kept in knowledge.states.into_iter().chain(of_agents) {
                *states.entry(kept.state).or_default() += 1;
            }
            Ok(())
        })?;
        let totals = file.totals()?;
        Ok(Self {
            entries: totals.entries,
            blobs: file.blobs()?,
            bytes: totals.bytes,
            file_bytes: file.bytes(),
            // An older file has been brought up to it, and a newer one cannot be opened.
            schema: SCHEMA_VERSION,
            states,
            broken: counted.unwrap_or_default(),
        })
    }
}

/// Hands over every origin, without the number of its file's lines.
pub(super) fn export(file: &DatabaseFile, each: Each<'_>) -> Result<io::Result<u64>, Trouble> {
    file.for_each(|origin, knowledge| {
        each(Report::new(origin.to_owned(), knowledge, &Blobs::new()))
    })
}

/// What waits to be written is written first.
impl Disk {
    /// How much there is.
    pub fn stats(&self) -> Result<Stats, OpenError> {
        self.survey(Stats::of)
    }

    /// Hands over every origin, one at a time; says how many did not hold. The inner error is the
    /// one that `each` ended with.
    pub fn export(
        &self,
        mut each: impl FnMut(Report) -> io::Result<()>,
    ) -> Result<io::Result<u64>, OpenError> {
        self.survey(|file| export(file, &mut each))
    }

    fn survey<T>(
        &self,
        look: impl FnOnce(&DatabaseFile) -> Result<T, Trouble>,
    ) -> Result<T, OpenError> {
        self.flush(STORE_CLOSE_TIMEOUT);
        let (file, failing) = {
            let desk = self.shared.desk();
            (desk.file.as_ref().map(Arc::clone), desk.health.failing.clone())
        };
        let Some(file) = file else {
            return Err(OpenError::Failing(
                failing.unwrap_or_else(|| "the store is closed".into()),
            ));
        };
        guarded(|| look(&file)).map_err(|trouble| trouble.at(self.shared.config.path.clone()))
    }
}
