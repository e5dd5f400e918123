//! Lists the files of a log in the order of the chain. Listed again and again while other programs
//! rename, compress and remove them, so the first line found in a file is cached by name and inode.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::block::{Log, ScanError};
use crate::audit::limits::LISTINGS_MAX;
use crate::audit::segment::{self, FILE_NAME, Found, Lines};
use crate::audit::{AnyLine, checked_hash};
use crate::types::timestamp::Timestamp;

/// One file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first line.
    pub first_seq: u64,
    /// When that was written; not known of a damaged file.
    pub first_time: Option<Timestamp>,
    /// The number of the file on its file system.
    pub inode: u64,
    /// As it is stored.
    pub bytes: u64,
    pub path: PathBuf,
}

/// The files of a log as they were last found.
#[derive(Debug)]
pub struct Listing {
    log: Log,
    pub segments: Vec<Segment>,
    /// Files without a place, for they have bytes and no line; and how many bytes.
    pub lineless: Vec<(PathBuf, usize)>,
    /// Files that begin with the same line: one that is among the segments, and one that is not.
    pub doubles: Vec<(PathBuf, PathBuf)>,
    known: HashMap<(PathBuf, u64), Segment>,
    /// Unreadable files that have been reported.
    reported: HashSet<PathBuf>,
}

impl Listing {
    /// Of `log`; nothing is listed before [`Self::refresh`].
    pub fn new(log: Log) -> Self {
        let (segments, lineless, doubles) = (Vec::new(), Vec::new(), Vec::new());
        Self { log, segments, lineless, doubles, known: HashMap::new(), reported: HashSet::new() }
    }

    /// Lists again. Returns the files whose place in the log is unknown, each once.
    pub fn refresh(&mut self) -> Result<Vec<ScanError>, ScanError> {
        let mut errors = Vec::new();
        let mut files = self.files()?;
        for _ in 0..LISTINGS_MAX {
            self.segments = self.look_at(&files, &mut errors);
            // A file whose name changed meanwhile may have been missed under either, and its lines
            // would be passed over for those of the next.
            let before = std::mem::replace(&mut files, self.files()?);
            if before == files {
                return Ok(errors);
            }
        }
        let why = io::Error::other("its files do not keep their names");
        Err(ScanError::new(&self.log.dir(), why))
    }

    fn look_at(&mut self, files: &[(PathBuf, u64)], errors: &mut Vec<ScanError>) -> Vec<Segment> {
        let mut segments = Vec::new();
        self.lineless.clear();
        for (path, _) in files {
            match self.look(path) {
                Ok(found) => segments.extend(found),
                // Renamed or removed in between: the next listing finds it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.log.is_dir() => {}
                Err(error) if self.reported.insert(path.clone()) => {
                    errors.push(ScanError::new(path, error))
                }
                Err(_) => {}
            }
        }
        // Of a segment that is there plain and compressed, as while it is being closed, one is read.
        segments.sort_by(|one: &Segment, other| {
            (one.first_seq, &one.path).cmp(&(other.first_seq, &other.path))
        });
        self.doubles.clear();
        segments.dedup_by(|second, read| {
            let is_double = second.first_seq == read.first_seq;
            if is_double && second.path != read.path {
                self.doubles.push((read.path.clone(), second.path.clone()));
            }
            is_double
        });
        self.known.retain(|(path, _), _| segments.iter().any(|segment| segment.path == *path));
        segments
    }

    /// The first segment, or the one that follows the segment beginning with `seq`.
    pub fn after(&self, seq: Option<u64>) -> Option<&Segment> {
        self.segments.iter().find(|segment| seq.is_none_or(|seq| segment.first_seq > seq))
    }

    /// With their inodes, where others may rename them.
    fn files(&self) -> Result<Vec<(PathBuf, u64)>, ScanError> {
        match &self.log {
            Log::Files(files) => Ok(files.iter().map(|file| (file.clone(), 0)).collect()),
            Log::Dir(dir) => segment::files(dir).map_err(|error| ScanError::new(dir, error)),
        }
    }

    fn look(&mut self, path: &Path) -> io::Result<Option<Segment>> {
        let metadata = path.metadata()?;
        let (inode, bytes) = (metadata.ino(), metadata.len());
        let key = (path.to_owned(), inode);
        // The file that is written may be emptied and begun anew by others; all others are closed.
        let is_active = path.file_name().is_some_and(|name| name == FILE_NAME);
        if !is_active && let Some(segment) = self.known.get(&key) {
            return Ok(Some(segment.clone()));
        }
        let (first_seq, first_time) = match first(path) {
            Ok(First::Line(first_seq, time)) => (first_seq, time),
            Ok(First::None { bytes }) => {
                self.lineless.extend((bytes > 0).then(|| (path.to_owned(), bytes)));
                return Ok(None);
            }
            // Its name still gives its place; reading it will report the fault.
            Err(error) => (segment::named_seq(path).ok_or(error)?, None),
        };
        let segment = Segment { first_seq, first_time, inode, bytes, path: path.to_owned() };
        self.known.insert(key, segment.clone());
        Ok(Some(segment))
    }
}

/// The beginning of a file.
enum First {
    /// Its number, and its time where that can be read.
    Line(u64, Option<Timestamp>),
    None {
        bytes: usize,
    },
}

fn first(path: &Path) -> io::Result<First> {
    let mut lines = Lines::open(path)?;
    // A damaged first line is for `verify` to find; its number follows from later lines.
    while let Found::Line(line) = lines.next()? {
        if checked_hash(line).is_ok()
            && let Ok(AnyLine { seq, time, .. }) = AnyLine::parse(line)
        {
            return Ok(First::Line(seq.saturating_sub(lines.number - 1), time));
        }
    }
    match lines.number {
        0 => Ok(First::None { bytes: usize::try_from(lines.bytes).unwrap_or(usize::MAX) }),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "none of its lines is of a log")),
    }
}
