//! The items of a scan: lines in blocks, bytes that are no line, and read errors.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::audit::segment;

/// The file of a dossier that has its lines.
pub const LINES_NAME: &str = "lines.jsonl";

/// Where a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Log {
    /// All segments in a directory.
    Dir(PathBuf),
    /// These files alone, in whatever order.
    Files(Vec<PathBuf>),
    /// A bundle, which is a part of a log, in a directory.
    Bundle(PathBuf),
    /// A dossier in a directory: lines of a log with others between them that are not there.
    Dossier(PathBuf),
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
            Self::Dir(dir) | Self::Bundle(dir) | Self::Dossier(dir) => dir.clone(),
            Self::Files(files) => {
                let parent = files.first().and_then(|file| file.parent());
                parent.filter(|dir| *dir != Path::new("")).unwrap_or(Path::new(".")).to_owned()
            }
        }
    }

    pub(super) const fn is_dir(&self) -> bool {
        matches!(self, Self::Dir(_) | Self::Bundle(_))
    }

    /// The directory where its head, its identity and its key are noted, if there is one.
    pub fn noting_dir(&self) -> Option<&Path> {
        match self {
            Self::Dir(dir) | Self::Bundle(dir) => Some(dir),
            Self::Files(_) | Self::Dossier(_) => None,
        }
    }

    /// Whether lines between others are not there, and that is no damage.
    pub const fn has_gaps(&self) -> bool {
        matches!(self, Self::Dossier(_))
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

// Reads a segment in blocks of whole lines, without copying lines: a line costs no more than
// finding its end.

/// One file, read from its beginning; a plain one can be read on when it has grown.
pub struct BlockReader {
    pub path: PathBuf,
    /// The number of the file on its file system: it stays the same when the file is renamed.
    pub inode: u64,
    /// Whole lines given so far.
    pub lines: u64,
    /// The same without those that [`BlockReader::bytes`] shows.
    pub lines_before: u64,
    /// The open file that `text` reads from, for the position.
    file: File,
    text: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Of the buffer: what [`BlockReader::bytes`] shows, what has been given, and what there is.
    shown: usize,
    given: usize,
    filled: usize,
}

/// What [`BlockReader::next`] found; [`BlockReader::bytes`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Whole lines, with their ends.
    Lines,
    /// More bytes without a line end than any line has.
    TooLong,
    /// The end of the file, for now; before it, perhaps, bytes that have no line end yet.
    End,
}

impl BlockReader {
    /// With room for `bytes` at once, which any line has to fit in.
    pub fn open(path: &Path, bytes: usize) -> io::Result<Self> {
        let file = File::open(path)?;
        let text = segment::text(file.try_clone()?)?;
        Self::new(path, file, text, bytes)
    }

    /// The same of whole members of a compressed file, which stand at `range` in `file`, from there on.
    pub fn of_members(
        path: &Path,
        file: &File,
        range: Range<u64>,
        bytes: usize,
    ) -> io::Result<Self> {
        let file = file.try_clone()?;
        let text = segment::text_of_members(file.try_clone()?, range)?;
        Self::new(path, file, Box::new(text), bytes)
    }

    fn new(path: &Path, file: File, text: Box<dyn Read + Send>, bytes: usize) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            inode: file.metadata()?.ino(),
            lines: 0,
            lines_before: 0,
            file,
            text,
            buffer: vec![0; bytes],
            shown: 0,
            given: 0,
            filled: 0,
        })
    }

    /// Bytes of the file, as it is stored, that have been read.
    pub fn position(&self) -> u64 {
        (&self.file).stream_position().unwrap_or_default()
    }

    /// The next lines. After the end it may be asked again: the file may have grown.
    pub fn next(&mut self) -> io::Result<Found> {
        self.buffer.copy_within(self.given..self.filled, 0);
        self.filled -= self.given;
        self.given = 0;
        let mut searched = 0;
        loop {
            if let Some(end) = memchr::memrchr(b'\n', &self.buffer[searched..self.filled]) {
                self.give(searched + end + 1);
                self.lines_before = self.lines;
                self.lines += memchr::memchr_iter(b'\n', self.bytes()).count() as u64;
                return Ok(Found::Lines);
            }
            if self.filled == self.buffer.len() {
                self.give(self.filled);
                return Ok(Found::TooLong);
            }
            let read = match self.text.read(&mut self.buffer[self.filled..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            };
            if read == 0 {
                self.shown = self.filled;
                return Ok(Found::End);
            }
            searched = self.filled;
            self.filled += read;
        }
    }

    /// What was found last.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.shown]
    }

    /// Counts the unfinished bytes at the end as given.
    pub fn give_rest(&mut self) {
        self.give(self.filled);
    }

    fn give(&mut self, bytes: usize) {
        (self.shown, self.given) = (bytes, bytes);
    }
}

impl std::fmt::Debug for BlockReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockReader")
            .field("path", &self.path)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}
