//! Statistics and export of everything on disk, with or without a running proxy.

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

/// Receives what is known of one origin.
pub type Each<'a> = &'a mut dyn FnMut(Report) -> io::Result<()>;

/// The amount of data in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Origins.
    pub entries: u64,
    /// Files and captures, each counted once.
    pub blobs: u64,
    /// Bytes of content, without the database's overhead.
    pub bytes: u64,
    pub file_bytes: u64,
    /// The version of the schema.
    pub schema: u64,
    /// The number of states of each kind. An origin has one per profile, and more if agents were
    /// told apart.
    pub states: BTreeMap<String, u64>,
    /// Origins whose row is broken.
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
            // Opening the file has migrated older schemas and refused newer ones.
            schema: SCHEMA_VERSION,
            states,
            broken: counted.unwrap_or_default(),
        })
    }
}

/// Calls `each` for every origin, without the line count of its file.
pub(super) fn export(file: &DatabaseFile, each: Each<'_>) -> Result<io::Result<u64>, Trouble> {
    file.for_each(|origin, knowledge| {
        each(Report::new(origin.to_owned(), knowledge, &Blobs::new()))
    })
}

/// Both flush the write queue first.
impl Disk {
    /// The amount of data.
    pub fn stats(&self) -> Result<Stats, OpenError> {
        self.survey(Stats::of)
    }

    /// Calls `each` for every origin; returns how many rows were broken. The inner error is the one
    /// of `each`.
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
