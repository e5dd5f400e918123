//! Errors that name their file.

use std::path::Path;
use std::{fs, io};

/// `error`, with the file it is about.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The size of one file; 0 if it is gone.
pub(super) fn bytes(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(at(path)(error)),
    }
}
