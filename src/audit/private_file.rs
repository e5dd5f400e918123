//! How the files of a log are opened.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// Creates files that only their owner may read and write: a record names clients and URLs.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}
