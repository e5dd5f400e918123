//! The items of a scan: lines in blocks, bytes that are no line, and read errors.

use std::io;
use std::path::{Path, PathBuf};

/// Where a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// All segments in a directory.
    Dir(PathBuf),
    /// These files alone, in whatever order.
    Files(Vec<PathBuf>),
}

/// A part of the log.
#[derive(Clone, Copy, Debug)]
pub enum ScanItem<'a> {
    Lines(Block<'a>),
    /// Bytes that are no line: more than one has, or at the end of a file and without an end.
    Rest(Rest<'a>),
}

/// Whole lines of one file.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    pub file: &'a Path,
    /// With their ends.
    pub bytes: &'a [u8],
    /// Lines of the file before these.
    before: u64,
}

/// A line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub bytes: &'a [u8],
    /// In its file, counted from 1.
    pub number: u64,
}

/// Bytes of a file that are not a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest<'a> {
    pub file: &'a Path,
    pub bytes: &'a [u8],
    /// Where a line of its file would have this number.
    pub number: u64,
}

/// A file of the log that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}", path.display())]
pub struct ScanError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// How far a scan has come, in bytes as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes read so far.
    pub read: u64,
    /// Bytes of all files that are to be read.
    pub total: u64,
}

impl Log {
    /// The directory that has the evidence of the log, too.
    pub fn dir(&self) -> PathBuf {
        match self {
            Self::Dir(dir) => dir.clone(),
            Self::Files(files) => {
                let parent = files.first().and_then(|file| file.parent());
                parent.filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")).to_owned()
            }
        }
    }

    pub(super) const fn is_dir(&self) -> bool {
        matches!(self, Self::Dir(_))
    }
}

impl<'a> Block<'a> {
    pub(super) const fn new(file: &'a Path, bytes: &'a [u8], before: u64) -> Self {
        Self { file, bytes, before }
    }

    /// The lines, one after the other.
    pub fn lines(self) -> impl Iterator<Item = Line<'a>> {
        let mut start = 0;
        memchr::memchr_iter(b'\n', self.bytes).zip(self.before + 1..).map(move |(end, number)| {
            let bytes = &self.bytes[start..end];
            start = end + 1;
            Line { bytes, number }
        })
    }
}

impl ScanError {
    pub(super) fn new(path: &Path, source: io::Error) -> Self {
        Self { path: path.to_owned(), source }
    }
}
