//! The directory of the log, locked by this process. Its path may come to lead elsewhere: after a
//! move, a removal, a mount, or a changed link.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::lock;

#[derive(Debug)]
pub(super) struct LogDir {
    dir: PathBuf,
    /// Device and inode, which identify a directory.
    id: (u64, u64),
    /// Held as long as anything there is written.
    lock: File,
}

impl LogDir {
    /// Takes the directory, and makes it if need be; `None` where another process has it, and has had it
    /// for all of `max_wait`.
    pub fn take(dir: &Path, max_wait: Duration) -> io::Result<Option<Self>> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let id = id(dir)?;
        let lock = lock::take(dir, max_wait)?;
        Ok(lock.map(|lock| Self { dir: dir.to_owned(), id, lock }))
    }

    /// Whether its path still leads to it.
    pub fn is_at_its_path(&self) -> io::Result<bool> {
        match id(&self.dir) {
            Ok(id) => Ok(id == self.id),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lock, for another thread that changes files there.
    pub fn share(&self) -> io::Result<File> {
        self.lock.try_clone()
    }
}

fn id(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino()))
}
