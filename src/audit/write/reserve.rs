//! Room on the disk for the last lines of a log: a file that is allocated while there is room, and
//! removed when a full disk keeps the writer from saying at its end what was lost.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::audit::private_file::private;

/// In the directory of the log, while it is written.
pub const NAME: &str = "reserve";

/// Its bytes: the last notices, and `head.json`, each in blocks of its own.
const RESERVE_BYTES: usize = 16 << 10;

/// The room; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Takes the room in the directory `dir`; where the disk is full already, there is none.
    pub fn take(dir: &Path) -> Self {
        let path = dir.join(NAME);
        if let Err(error) = fill(&path) {
            tracing::debug!("{} cannot be made: {error}", path.display());
            let _ = fs::remove_file(&path);
        }
        Self { path }
    }

    /// Gives the room back. Whether there was some.
    pub fn give_back(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Written, not only reserved: that is room on every file system.
fn fill(path: &Path) -> io::Result<()> {
    private().write(true).truncate(true).open(path)?.write_all(&[0; RESERVE_BYTES])
}
