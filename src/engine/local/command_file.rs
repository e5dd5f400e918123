//! The file, as commands read and change it beside running processes or without one.

use std::path::{Path, PathBuf};

use super::file::{self, LocalFileError, StateFile, begin};
use super::rows::{self, KnownOrigin, LaneAhead, Rows};
use crate::engine::{FileDigest, LeaseToken};
use crate::runtime::clock::SystemClock;
use crate::types::origin::Origin;

/// The file, for a command: beside running processes or without one.
#[derive(Debug)]
pub struct LocalFile(StateFile);

impl LocalFile {
    /// The file of `state_dir`; `None`: there is none.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn open(state_dir: &Path) -> Result<Option<Self>, LocalFileError> {
        if !file::path(state_dir).exists() {
            return Ok(None);
        }
        StateFile::open(state_dir).map(|file| Some(Self(file)))
    }

    /// Where the file of a state directory is.
    pub fn path(state_dir: &Path) -> PathBuf {
        file::path(state_dir)
    }

    /// What it has of an origin, as [`super::LocalEngine::known`].
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn known(
        &self,
        origin: &Origin,
        files: fn(&[u8]) -> Option<Vec<FileDigest>>,
    ) -> Result<Option<KnownOrigin>, LocalFileError> {
        self.with_rows(|rows| rows.known(origin, files))
    }

    /// What lies ahead of the lane of an origin.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn lane(&self, origin: &Origin) -> Result<LaneAhead, LocalFileError> {
        self.with_rows(|rows| rows.lane_ahead(origin.lane().into_owned()))
    }

    /// Removes what is known of an origin, and ends its hold; whether there was anything.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn forget(&self, origin: &Origin) -> Result<bool, LocalFileError> {
        self.with_rows(|rows| rows.forget(origin))
    }

    /// Calls `each` for every origin with its value, as long as that returns true; how many rows are
    /// not what was written.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn for_each(
        &self,
        each: impl FnMut(&str, LeaseToken, &[u8]) -> bool,
    ) -> Result<u64, LocalFileError> {
        rows::for_each(&self.0.connection, each).map_err(|error| self.fault(error))
    }

    /// Origins, and files that they name.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn counts(&self) -> Result<(u64, u64), LocalFileError> {
        let count = |sql| self.0.connection.query_row(sql, [], |row| row.get::<_, u64>(0));
        let counts =
            || Ok((count("SELECT count(*) FROM origin")?, count("SELECT count(*) FROM file")?));
        counts().map_err(|error| self.fault(error))
    }

    /// Bytes of what is kept, and of the file with its free pages.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub fn bytes(&self) -> Result<(u64, u64), LocalFileError> {
        self.0.bytes().map_err(|error| self.fault(error))
    }

    /// Gives free pages back to the system, and empties the log.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub fn compact(&self) -> Result<(), LocalFileError> {
        let compact = || {
            self.0.vacuum(0)?;
            self.0.checkpoint("TRUNCATE")
        };
        compact().map_err(|error| self.fault(error))
    }

    fn with_rows<T>(
        &self,
        work: impl FnOnce(&Rows<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, LocalFileError> {
        let run = || {
            let tx = begin(&self.0.connection)?;
            let result = work(&Rows::new(&tx, &SystemClock, "")?)?;
            tx.commit().map(|()| result)
        };
        run().map_err(|error| self.fault(error))
    }

    fn fault(&self, error: rusqlite::Error) -> LocalFileError {
        LocalFileError::Sql { source: error, path: self.0.path() }
    }
}
