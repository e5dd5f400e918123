//! Errors of the database file.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// Why the file cannot be used at present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskError {
    /// Another process uses it.
    Locked,
    /// A later version has written it. The file is not touched.
    Newer(String),
    /// The content is not what was written.
    Damaged(String),
    /// The disk is full, read-only or broken, which may pass.
    Io(String),
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another courtesy process uses {}; set another state directory (--state-dir)", .0.display())]
    Locked(PathBuf),
    #[error("there is no store at {}", .0.display())]
    Missing(PathBuf),
    #[error("{} was written by a newer courtesy: {why}; use that version, or move the file away", path.display())]
    Newer { path: PathBuf, why: String },
    #[error("{} is damaged: {why}; move it away, and a new one is created", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("cannot use {}: {why}", path.display())]
    Io { path: PathBuf, why: String },
    /// The reason that a running proxy has logged.
    #[error("{0}; the proxy continues without it, and retries from time to time")]
    Failing(String),
}

impl DiskError {
    pub(super) fn at(self, path: PathBuf) -> OpenError {
        match self {
            Self::Locked => OpenError::Locked(path),
            Self::Newer(why) => OpenError::Newer { path, why },
            Self::Damaged(why) => OpenError::Damaged { path, why },
            Self::Io(why) => OpenError::Io { path, why },
        }
    }
}

impl<E: Into<redb::Error>> From<E> for DiskError {
    fn from(error: E) -> Self {
        let error = error.into();
        let text = error.to_string();
        match error {
            redb::Error::DatabaseAlreadyOpen => Self::Locked,
            redb::Error::UpgradeRequired(_) => Self::Newer(text),
            redb::Error::Io(cause) => match cause.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Self::Damaged(text),
                _ => Self::Io(text),
            },
            redb::Error::Corrupted(_)
            | redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TableIsNotMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
            | redb::Error::TableDoesNotExist(_) => Self::Damaged(text),
            _ => Self::Io(text),
        }
    }
}

/// Converts a panic of the database into an error: damaged pages can cause one, and neither a
/// request nor the writer thread may end with it. The caller discards the handle, so no half-done
/// change is seen.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, DiskError>) -> Result<T, DiskError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(DiskError::Io("the database panicked; the file may be damaged".into()))
    })
}
