//! A directory for one command.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory among the temporary files that only this user can read; it is removed when this is dropped.
#[derive(Debug)]
pub struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Its name says which `command` made it.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new(command: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("courtesy-{command}-{}", ulid::Ulid::new()));
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        // One that stays is no trouble worth words.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
