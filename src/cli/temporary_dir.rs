//! A directory for one command.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::TempDir;

/// How names begin.
const PREFIX: &str = "courtesy-";

/// How they end: so many letters and digits at random are a name that only this program makes.
const RANDOM_LETTERS: usize = 26;

/// What a directory is for, as its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Clients,
    Demo,
    Doctor,
    Dossier,
    Sealed,
    State,
}

impl Purpose {
    const ALL: [Self; 6] =
        [Self::Clients, Self::Demo, Self::Doctor, Self::Dossier, Self::Sealed, Self::State];

    const fn word(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Demo => "demo",
            Self::Doctor => "doctor",
            Self::Dossier => "dossier",
            Self::Sealed => "sealed",
            Self::State => "state",
        }
    }
}

/// Directories left by killed processes that one call removes, and entries it looks at.
const REMOVED_MAX: usize = 100;
const ENTRIES_MAX: usize = 10_000;

/// Where directories are made if they cannot be among the temporary files: a container whose file system
/// is read-only may have one of these.
const OTHERS: [&str; 2] = ["/tmp", "/dev/shm"];

/// How often a directory is made again that was removed before it was locked.
const ATTEMPTS: usize = 5;

/// A directory among the temporary files that only this user can list; it is removed when this is dropped.
/// While its process lives, it is locked (flock(2)); one that is not is removed by a later process.
#[derive(Debug)]
pub struct TemporaryDir {
    dir: TempDir,
    _lock: File,
}

impl TemporaryDir {
    /// Makes one for `purpose`.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new(purpose: Purpose) -> io::Result<Self> {
        Self::new_in_one_of(std::iter::once(std::env::temp_dir()).chain(others()), purpose)
    }

    /// Makes one through which every user passes to the files that it is open for. It is elsewhere where
    /// the directory of temporary files is closed to others.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub fn new_passable(purpose: Purpose) -> io::Result<Self> {
        let all = Some(std::env::temp_dir()).filter(|all| is_passable(all));
        let dir = Self::new_in_one_of(all.into_iter().chain(others()), purpose)?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711))?;
        Ok(dir)
    }

    /// Makes one in the first of these where that is possible; else the error is that of the first.
    fn new_in_one_of(all: impl Iterator<Item = PathBuf>, purpose: Purpose) -> io::Result<Self> {
        let mut first = None;
        for all in all {
            match Self::new_in(&all, purpose) {
                Ok(dir) => return Ok(dir),
                Err(error) => first = first.or(Some(error)),
            }
        }
        Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn new_in(all: &Path, purpose: Purpose) -> io::Result<Self> {
        remove_abandoned_in(all);
        for _ in 0..ATTEMPTS {
            let dir = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{}-", purpose.word()))
                .rand_bytes(RANDOM_LETTERS)
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(all)?;
            // Another process may have found it without a lock, and removes it.
            if let Some(lock) = lock(dir.path()).filter(|_| dir.path().is_dir()) {
                return Ok(Self { dir, _lock: lock });
            }
        }
        Err(io::Error::other("a temporary directory was removed again and again"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Whether every user passes through a directory, by its permissions and those of all above it.
pub fn is_passable(directory: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else { return false };
    let passes = |it: &Path| fs::metadata(it).is_ok_and(|found| found.mode() & 0o001 != 0);
    directory.ancestors().all(passes)
}

/// Removes directories of this user whose processes were killed.
pub fn remove_abandoned() {
    std::iter::once(std::env::temp_dir()).chain(others()).for_each(|all| remove_abandoned_in(&all));
}

fn others() -> impl Iterator<Item = PathBuf> {
    OTHERS.into_iter().map(PathBuf::from)
}

fn remove_abandoned_in(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    let own = geteuid().as_raw();
    let ours = entries.flatten().take(ENTRIES_MAX).filter(|entry| {
        let is_named = is_name(&entry.file_name().to_string_lossy());
        // Of the entry itself, were it a link.
        is_named && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own)
    });
    for entry in ours.take(REMOVED_MAX) {
        if let Some(_lock) = lock(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_name(name: &str) -> bool {
    let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-'));
    parts.is_some_and(|(word, id)| {
        let is_purpose = Purpose::ALL.iter().any(|purpose| purpose.word() == word);
        is_purpose && id.len() == RANDOM_LETTERS && id.bytes().all(|it| it.is_ascii_alphanumeric())
    })
}

/// The lock of a directory that no other process holds.
fn lock(path: &Path) -> Option<File> {
    let directory = File::open(path).ok()?;
    directory.try_lock().ok().map(|()| directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next() {
        let all = tempfile::tempdir().unwrap();
        let left = all.path().join(format!("courtesy-sealed-{}", ulid::Ulid::new()));
        let other = format!("courtesy-notes-{}", ulid::Ulid::new());
        let others = ["courtesy-sealed-notes", "other", &other].map(|name| all.path().join(name));
        for dir in others.iter().chain([&left]) {
            fs::create_dir(dir).unwrap();
            fs::write(dir.join("file"), "content").unwrap();
        }
        let one = TemporaryDir::new_in(all.path(), Purpose::Sealed).unwrap();
        assert!(!left.exists() && others.iter().all(|dir| dir.join("file").exists()));
        let two = TemporaryDir::new_in(all.path(), Purpose::Demo).unwrap();
        assert!(one.path().is_dir() && two.path().is_dir(), "those in use stay");
        drop((one, two));
        assert_eq!(fs::read_dir(all.path()).unwrap().count(), 3);
    }
}
