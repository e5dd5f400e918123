//! Reads and writes files that hold secrets: accessible to their owner only, and created without
//! following links.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::runtime::files;
use crate::runtime::limits::NAMED_FILE_BYTES_MAX;

/// A file of secrets as found.
#[derive(Debug)]
pub enum Found<T> {
    Content(T),
    /// Accessible to others than its owner.
    Exposed,
}

/// Reads a file of secrets, bounded as by [`files::read`].
pub fn read(file: &Path) -> io::Result<Found<Vec<u8>>> {
    read_unless(file, 0o077, NAMED_FILE_BYTES_MAX)
}

/// [`read`], of a file that its group may read, too: as Kubernetes gives the files of a Secret.
pub fn read_of_group(file: &Path) -> io::Result<Found<Vec<u8>>> {
    read_unless(file, 0o027, NAMED_FILE_BYTES_MAX)
}

/// Checks the mode of the open file, because the name may be another file's a moment later.
fn read_unless(file: &Path, exposed: u32, max: usize) -> io::Result<Found<Vec<u8>>> {
    let opened = files::open(file)?;
    if opened.metadata()?.permissions().mode() & exposed != 0 {
        return Ok(Found::Exposed);
    }
    files::read_opened(opened, max).map(Found::Content)
}

/// [`read`], of text.
pub fn read_text(file: &Path) -> io::Result<Found<String>> {
    text(read(file)?)
}

/// [`read_text`], of at most `max` bytes.
pub fn read_long_text(file: &Path, max: usize) -> io::Result<Found<String>> {
    text(read_unless(file, 0o077, max)?)
}

/// [`read_text`], of a file that its group may read, too.
pub fn read_text_of_group(file: &Path) -> io::Result<Found<String>> {
    text(read_unless(file, 0o027, NAMED_FILE_BYTES_MAX)?)
}

fn text(found: Found<Vec<u8>>) -> io::Result<Found<String>> {
    Ok(match found {
        Found::Content(content) => Found::Content(files::text(content)?),
        Found::Exposed => Found::Exposed,
    })
}

/// Creates a file, writes it and syncs it to disk. Fails if it exists, so that no other process can
/// have it open or have planted a link.
pub fn write_new(file: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    opened.write_all(content)?;
    opened.sync_all()
}

/// Removes a file, if it exists.
pub fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
