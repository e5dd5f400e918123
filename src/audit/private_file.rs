//! How the files of a log are opened.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

/// Readable and writable by nobody else: a record says who asked for what.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}
