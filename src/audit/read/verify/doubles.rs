//! Compares two files of a log that begin with the same line, of which only one is read.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use crate::audit::segment;

/// The content of a second file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Second {
    Same,
    /// One of the two has the first lines of the other, and no more.
    Begins,
    Other,
}

/// Compares their text, after decompression.
pub(super) fn compare(one: &Path, other: &Path) -> io::Result<Second> {
    let open = |path: &Path| Ok::<_, io::Error>(BufReader::new(segment::text(File::open(path)?)?));
    let (mut one, mut other) = (open(one)?, open(other)?);
    loop {
        let (first, second) = (one.fill_buf()?, other.fill_buf()?);
        let length = first.len().min(second.len());
        if length == 0 {
            return Ok(if first.len() == second.len() { Second::Same } else { Second::Begins });
        }
        if first[..length] != second[..length] {
            return Ok(Second::Other);
        }
        one.consume(length);
        other.consume(length);
    }
}
