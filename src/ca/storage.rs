//! The files of the proxy's own CA: `ca.pem`, the certificates to trust, and `ca.key`. All access
//! holds a lock, so that two programs that start at once generate one CA, and what a crash left
//! half-done is completed or removed before anything is read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::certificate::CaError;
use crate::runtime::NAMED_FILE_BYTES_MAX;
use crate::runtime::files::{self, Found};

/// The locked directory of a CA.
pub(super) struct Storage {
    dir: PathBuf,
    _lock: File,
}

impl Storage {
    /// Waits for the lock; creates the directory with mode 0700 if it does not exist.
    pub fn lock(dir: &Path) -> Result<Self, CaError> {
        if let Some(parent) = dir.parent() {
            fs::create_dir_all(parent).map_err(CaError::io(parent))?;
        }
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(CaError::io(dir)(error));
            }
            _ => {}
        }
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = match file {
            // On a read-only file system an existing CA can still be used.
            Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => File::open(&path),
            file => file,
        };
        let lock = file.and_then(|file| file.lock().map(|()| file)).map_err(CaError::io(&path))?;
        let storage = Self { dir: dir.to_owned(), _lock: lock };
        storage.recover()?;
        Ok(storage)
    }

    /// Locks the existing directory for reading; `None` if [`Self::lock`] would have to generate or
    /// repair the CA. Changes nothing.
    pub fn look(dir: &Path) -> Result<Option<Self>, CaError> {
        let path = dir.join("lock");
        let lock = match File::open(&path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return files::check_makeable(dir).map_err(CaError::io(dir)).map(|()| None);
            }
            Err(error) => return Err(CaError::io(&path)(error)),
        };
        match files::check_writable(&path) {
            // As in `lock`.
            Err(error) if error.kind() != ErrorKind::ReadOnlyFilesystem => {
                return Err(CaError::io(&path)(error));
            }
            _ => {}
        }
        lock.lock_shared().map_err(CaError::io(&path))?;
        let storage = Self { dir: dir.to_owned(), _lock: lock };
        let is_whole = !storage.next().iter().any(|file| file.symlink_metadata().is_ok());
        if storage.holds_ca() && is_whole {
            return Ok(Some(storage));
        }
        files::check_makeable(dir).map_err(CaError::io(dir)).map(|()| None)
    }

    /// The file of the certificate.
    pub fn certificate(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The file of the key.
    pub fn key(&self) -> PathBuf {
        self.dir.join("ca.key")
    }

    /// Whether there is a CA, or a part of one: then none is generated.
    pub fn holds_ca(&self) -> bool {
        [self.certificate(), self.key()].iter().any(|file| file.symlink_metadata().is_ok())
    }

    /// Replaces the CA. Both files are complete on disk before the first is renamed; after that
    /// [`Self::recover`] completes the second.
    pub fn install(&self, certificates: &str, key: &str) -> Result<(), CaError> {
        let [next_certificate, next_key] = self.next();
        write_new(&next_key, key, 0o600)?;
        write_new(&next_certificate, certificates, 0o644)?;
        self.sync()?;
        rename(&next_key, &self.key())?;
        rename(&next_certificate, &self.certificate())?;
        self.sync()
    }

    /// Replaces the certificates to trust; keeps the key.
    pub fn replace_certificates(&self, certificates: &str) -> Result<(), CaError> {
        // Not the name that `recover` takes for a complete file.
        let part = self.dir.join("ca.pem.part");
        remove(&part)?;
        write_new(&part, certificates, 0o644)?;
        rename(&part, &self.certificate())?;
        self.sync()
    }

    /// The key is renamed first: a new certificate without a new key means that only the
    /// certificate's rename is missing. Otherwise nothing had happened yet.
    fn recover(&self) -> Result<(), CaError> {
        let [next_certificate, next_key] = self.next();
        let exists = |file: &Path| file.symlink_metadata().is_ok();
        match (exists(&next_certificate), exists(&next_key)) {
            (true, false) => rename(&next_certificate, &self.certificate()),
            // On a read-only file system even removing a missing file fails.
            (false, false) => Ok(()),
            (_, true) => {
                remove(&next_certificate)?;
                remove(&next_key)
            }
        }
    }

    fn next(&self) -> [PathBuf; 2] {
        ["ca.pem.new", "ca.key.new"].map(|name| self.dir.join(name))
    }

    fn sync(&self) -> Result<(), CaError> {
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(CaError::io(&self.dir))
    }
}

/// A key file with mode 0600.
pub(super) fn read_private(file: &Path) -> Result<String, CaError> {
    match files::read_secret_text(file).map_err(CaError::io(file))? {
        Found::Content(text) => Ok(text),
        Found::Exposed => Err(CaError::Exposed { file: file.to_owned() }),
    }
}

pub(super) fn read(file: &Path) -> Result<String, CaError> {
    files::read_text(file, NAMED_FILE_BYTES_MAX).map_err(CaError::io(file))
}

fn write_new(file: &Path, text: &str, mode: u32) -> Result<(), CaError> {
    files::write_new(file, text.as_bytes(), mode).map_err(CaError::io(file))
}

fn rename(from: &Path, to: &Path) -> Result<(), CaError> {
    fs::rename(from, to).map_err(CaError::io(to))
}

fn remove(file: &Path) -> Result<(), CaError> {
    files::remove(file).map_err(CaError::io(file))
}
