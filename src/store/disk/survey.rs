//! Statistics and export of everything on disk, with or without a running proxy.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::error::DiskError;
use super::file::{DatabaseFile, SCHEMA_VERSION};
use crate::store::counters::Report;
use crate::store::persisted::Blobs;

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
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The version of the schema.
    pub schema: u64,
    /// The number of states of each kind. An origin has one per profile, and more if agents were
    /// distinguished.
    pub states: BTreeMap<String, u64>,
    /// Origins whose row is broken.
    pub broken: u64,
}

impl Stats {
    pub(super) fn of(file: &DatabaseFile) -> Result<Self, DiskError> {
        let mut states = BTreeMap::new();
        let counted = file.for_each(|_, persisted| {
            let of_agents = persisted.agents.into_iter().flat_map(|agent| agent.states);
            for kept in persisted.states.into_iter().chain(of_agents) {
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
pub(super) fn export(file: &DatabaseFile, each: Each<'_>) -> Result<io::Result<u64>, DiskError> {
    file.for_each(|origin, persisted| {
        each(Report::new(origin.to_owned(), persisted, &Blobs::new()))
    })
}
