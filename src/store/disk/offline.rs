//! The file without a proxy: for `courtesy store`, while none runs. It makes nothing and mends
//! nothing on its own account.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::Report;
use super::file::{DatabaseFile, Row};
use super::trouble::{OpenError, Trouble, guarded};
use crate::origin::Origin;

/// A store that no proxy uses, and none can use meanwhile.
#[derive(Debug)]
pub struct Offline {
    file: DatabaseFile,
    path: PathBuf,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Origins.
    pub entries: u64,
    /// Files and captures, each counted once.
    pub blobs: u64,
    /// Octets of what is kept, without what the database needs around it.
    pub bytes: u64,
    pub file_bytes: u64,
}

impl Offline {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        if !path.exists() {
            return Err(OpenError::Missing(path.to_owned()));
        }
        let file = guarded(|| DatabaseFile::open(path, false)).map_err(|it| it.at(path.to_owned()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    pub fn stats(&self) -> Result<Stats, OpenError> {
        self.say(|| {
            let totals = self.file.totals()?;
            Ok(Stats {
                entries: totals.entries,
                blobs: self.file.blobs()?,
                bytes: totals.octets,
                file_bytes: self.file.octets(),
            })
        })
    }

    /// Nothing also for what does not hold.
    pub fn get(&self, origin: &Origin) -> Result<Option<Report>, OpenError> {
        let name = origin.to_string();
        Ok(match self.say(|| self.file.read(&name))? {
            Some(Row::Kept(knowledge, _)) => Some(Report { origin: name, knowledge: *knowledge }),
            Some(Row::Broken) | None => None,
        })
    }

    /// Whether anything was known.
    pub fn forget(&self, origin: &Origin) -> Result<bool, OpenError> {
        let name = origin.to_string();
        self.say(|| self.file.write(|tables, _| tables.remove(&name)))
    }

    /// Hands over every origin, one at a time; says how many did not hold. The inner error is the
    /// one that `each` ended with.
    pub fn export(
        &self,
        mut each: impl FnMut(Report) -> io::Result<()>,
    ) -> Result<io::Result<u64>, OpenError> {
        self.say(|| {
            self.file.for_each(|origin, knowledge| each(Report { origin: origin.to_owned(), knowledge }))
        })
    }

    /// Gives back to the system what is not needed: octets of the file before and after.
    pub fn compact(&mut self) -> Result<(u64, u64), OpenError> {
        let before = self.file.octets();
        // One pass may only make room for the next.
        while guarded(|| self.file.compact()).map_err(|it| it.at(self.path.clone()))? {}
        Ok((before, self.file.octets()))
    }

    fn say<T>(&self, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, OpenError> {
        guarded(work).map_err(|trouble| trouble.at(self.path.clone()))
    }
}
