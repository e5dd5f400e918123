//! The database file without a running proxy, for `courtesy store`. Never creates or repairs a
//! file.

use std::io;
use std::path::{Path, PathBuf};

use super::error::{DiskError, OpenError, guarded};
use super::file::{DatabaseFile, Row};
use super::forget_hold;
use super::survey::{self, Stats};
use crate::store::counters::Report;
use crate::types::origin::Origin;

/// An exclusively opened store.
#[derive(Debug)]
pub struct Offline {
    file: DatabaseFile,
    path: PathBuf,
}

impl Offline {
    /// Opens the file at `path`.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Missing(path.to_owned()));
        }
        let file =
            guarded(|| DatabaseFile::open(path, false)).map_err(|it| it.at(path.to_owned()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The amount of stored data.
    pub fn stats(&self) -> Result<Stats, OpenError> {
        self.say(|| Stats::of(&self.file))
    }

    /// `None` also for a broken row.
    pub fn get(&self, origin: &Origin) -> Result<Option<Report>, OpenError> {
        let name = origin.to_string();
        Ok(match self.say(|| self.file.read(&name))? {
            Some(Row::Stored(persisted, blobs)) => Some(Report::new(name, *persisted, &blobs)),
            Some(Row::Broken) | None => None,
        })
    }

    /// Returns whether the origin was known.
    pub fn forget(&self, origin: &Origin) -> Result<bool, OpenError> {
        let name = origin.to_string();
        self.say(|| {
            self.file.write(|tables, transaction| {
                // A lane is kept by its name; former versions wrote that of each origin.
                let lane = forget_hold(transaction, &origin.lane().to_string())?;
                let own = forget_hold(transaction, &name)?;
                Ok(tables.remove(&name)? || lane || own)
            })
        })
    }

    /// Calls `each` for every origin; returns how many rows were broken. The inner error is the one
    /// of `each`.
    pub fn export(
        &self,
        mut each: impl FnMut(Report) -> io::Result<()>,
    ) -> Result<io::Result<u64>, OpenError> {
        self.say(|| survey::export(&self.file, &mut each))
    }

    /// Shrinks the file. Returns its size in bytes before and after.
    pub fn compact(&mut self) -> Result<(u64, u64), OpenError> {
        let before = self.file.bytes();
        // A pass may only make room for the next one.
        while guarded(|| self.file.compact()).map_err(|it| it.at(self.path.clone()))? {}
        Ok((before, self.file.bytes()))
    }

    fn say<T>(&self, work: impl FnOnce() -> Result<T, DiskError>) -> Result<T, OpenError> {
        guarded(work).map_err(|error| error.at(self.path.clone()))
    }
}
