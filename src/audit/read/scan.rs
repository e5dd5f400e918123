//! Reads the lines of a log in the order of the chain, each once, in constant memory, while the
//! writer closes, compresses and removes its files. A place in the log is the number of a
//! segment's first line and the count of its lines given so far, and does not depend on file names.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::block::{Block, BlockReader, Extent, Found, LINES_NAME, Log, Rest, ScanError, ScanItem};
use crate::audit::segment::{self, FILE_NAME, FoundLine, Lines};
use crate::audit::{AnyLine, LISTINGS_MAX, RECORD_LINE_BYTES_MAX, checked_hash};
use crate::types::timestamp::Timestamp;

/// How far the times of lines that follow each other may go back, as when a clock is set right:
/// segments are passed over by time only beyond that.
const REVIEW_CLOCK_SLACK: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes of the log that a reader holds at once: several lines, and few enough for a processor's
/// cache.
const REVIEW_BLOCK_BYTES: usize = 256 << 10;

/// The same where several logs are read together: room for any line.
const REVIEW_SMALL_BLOCK_BYTES: usize = 2 * RECORD_LINE_BYTES_MAX;

/// Reads a log. At its end it may be asked again: there may be more by then.
#[derive(Debug)]
pub struct Scan {
    listing: Listing,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    current: Option<OpenSegment>,
    /// The first line of the last segment that was begun or passed over.
    begun: Option<u64>,
    /// Bytes of segments that are done with.
    done: u64,
    errors: Vec<ScanError>,
    block_bytes: usize,
}

/// The segment that is being read.
#[derive(Debug)]
struct OpenSegment {
    segment: Segment,
    blocks: BlockReader,
    /// Another follows it, so it will not grow any more.
    is_closed: bool,
}

enum Step {
    Again,
    Lines,
    Rest,
    End,
}

impl Scan {
    /// From the beginning of the log.
    pub fn new(log: Log) -> Result<Self, ScanError> {
        let mut listing = Listing::new(log);
        let errors = listing.refresh()?;
        Ok(Self {
            listing,
            since: None,
            until: None,
            current: None,
            begun: None,
            done: 0,
            errors,
            block_bytes: REVIEW_BLOCK_BYTES,
        })
    }

    /// Skips segments that have no line of that time. The others have lines of other times, too.
    pub fn between(mut self, since: Option<Timestamp>, until: Option<Timestamp>) -> Self {
        (self.since, self.until) = (since, until);
        self
    }

    /// Reads smaller blocks, for reading many logs together.
    pub const fn in_small_blocks(mut self) -> Self {
        self.block_bytes = REVIEW_SMALL_BLOCK_BYTES;
        self
    }

    /// Passes over all segments but the last.
    pub fn from_last_segment(mut self) -> Self {
        self.begun = self.listing.segments.iter().rev().nth(1).map(|segment| segment.first_seq);
        self
    }

    /// The next part, `None` at the end. After an error the next call goes on behind what cannot be
    /// read. Not an iterator: a piece is good until the next is asked for.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from itself")]
    pub fn next(&mut self) -> Result<Option<ScanItem<'_>>, ScanError> {
        loop {
            if let Some(error) = self.errors.pop() {
                return Err(error);
            }
            match self.step()? {
                Step::Again => {}
                Step::End => return Ok(None),
                Step::Lines => return Ok(self.block().map(ScanItem::Lines)),
                Step::Rest => return Ok(self.rest().map(ScanItem::Rest)),
            }
        }
    }

    /// After the end: bytes behind the last line, which a running writer may be about to end.
    pub fn unfinished(&self) -> Option<Rest<'_>> {
        self.rest().filter(|rest| !rest.bytes.is_empty())
    }

    /// The number of the log's first line, as it was when a file was last looked for.
    pub fn first_seq(&self) -> Option<u64> {
        self.listing.segments.first().map(|segment| segment.first_seq)
    }

    /// Files that have no place in the log, for they have bytes and no line; and how many bytes.
    pub fn lineless(&self) -> &[(PathBuf, usize)] {
        &self.listing.lineless
    }

    /// Files that begin with the same line: one that is read, and one that is not.
    pub fn doubles(&self) -> &[(PathBuf, PathBuf)] {
        &self.listing.doubles
    }

    /// The progress. The log may grow during a scan.
    pub fn extent(&self) -> Extent {
        let position = self.current.as_ref().map_or(0, |current| current.blocks.position());
        let first = self
            .current
            .as_ref()
            .map_or(self.begun.map_or(0, |seq| seq + 1), |it| it.segment.first_seq);
        let ahead = self.listing.segments.iter().filter(|segment| segment.first_seq >= first);
        let total = self.done + ahead.map(|segment| segment.bytes).sum::<u64>();
        let read = self.done + position;
        Extent { read, total: total.max(read) }
    }

    fn step(&mut self) -> Result<Step, ScanError> {
        let Some(current) = &mut self.current else { return self.begin() };
        match current.blocks.next() {
            Err(error) => Err(ScanError::new(&self.finish(), error)),
            Ok(Found::Lines) => Ok(Step::Lines),
            Ok(Found::TooLong) => Ok(Step::Rest),
            Ok(Found::End) if !current.is_closed => self.look_ahead(),
            Ok(Found::End) if current.blocks.bytes().is_empty() => {
                self.finish();
                Ok(Step::Again)
            }
            Ok(Found::End) => {
                current.blocks.give_rest();
                Ok(Step::Rest)
            }
        }
    }

    /// Opens the next segment that may have lines of the time that is asked for.
    fn begin(&mut self) -> Result<Step, ScanError> {
        if self.listing.after(self.begun).is_none() {
            self.refresh()?;
        }
        let Some(segment) = self.listing.after(self.begun).cloned() else { return Ok(Step::End) };
        if self.listing.is_of_another_time(&segment, self.since, self.until) {
            self.begun = Some(segment.first_seq);
            self.done += segment.bytes;
            return Ok(Step::Again);
        }
        match BlockReader::open(&segment.path, self.block_bytes) {
            Ok(blocks) if blocks.inode == segment.inode => {
                self.begun = Some(segment.first_seq);
                self.current = Some(OpenSegment { segment, blocks, is_closed: false });
                Ok(Step::Again)
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.begun = Some(segment.first_seq);
                Err(ScanError::new(&segment.path, error))
            }
            // Renamed, compressed or removed since it was listed.
            Ok(_) | Err(_) => {
                self.refresh()?;
                Ok(Step::Again)
            }
        }
    }

    /// At the end of a segment: is there another? If so this one is complete, and what was written
    /// to it before it was closed is still to be read.
    fn look_ahead(&mut self) -> Result<Step, ScanError> {
        self.refresh()?;
        let Some(current) = &mut self.current else { return Ok(Step::Again) };
        let seq = current.segment.first_seq;
        current.is_closed = self.listing.after(Some(seq)).is_some();
        Ok(if current.is_closed { Step::Again } else { Step::End })
    }

    fn refresh(&mut self) -> Result<(), ScanError> {
        self.errors.extend(self.listing.refresh()?);
        Ok(())
    }

    /// The file that was read, now done with.
    fn finish(&mut self) -> PathBuf {
        let Some(current) = self.current.take() else { return PathBuf::new() };
        self.done += current.blocks.position();
        current.segment.path
    }

    fn block(&self) -> Option<Block<'_>> {
        let OpenSegment { segment, blocks, .. } = self.current.as_ref()?;
        let bytes = blocks.bytes();
        Some(Block::new(&segment.path, bytes, blocks.lines_before))
    }

    fn rest(&self) -> Option<Rest<'_>> {
        let OpenSegment { segment, blocks, .. } = self.current.as_ref()?;
        Some(Rest { file: &segment.path, bytes: blocks.bytes(), number: blocks.lines + 1 })
    }
}

// Lists the files of a log in the order of the chain. Listed again and again while the writer closes,
// compresses and removes them, so the first line found in a file is cached by name and inode.

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

    /// Whether `segment` has no line between these times. A clock may have been set back, so the time of a line does not
    /// bound those near it.
    pub fn is_of_another_time(
        &self,
        segment: &Segment,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> bool {
        let next = self.after(Some(segment.first_seq)).and_then(|next| next.first_time);
        let is_before =
            |time: Timestamp| since.is_some_and(|since| time.plus(REVIEW_CLOCK_SLACK) < since);
        let is_after =
            |time: Timestamp| until.is_some_and(|until| until.plus(REVIEW_CLOCK_SLACK) < time);
        next.is_some_and(is_before) || segment.first_time.is_some_and(is_after)
    }

    /// With their inodes, where the writer may rename them.
    fn files(&self) -> Result<Vec<(PathBuf, u64)>, ScanError> {
        match &self.log {
            Log::Files(files) => Ok(files.iter().map(|file| (file.clone(), 0)).collect()),
            Log::Dossier(dir) => Ok(vec![(dir.join(LINES_NAME), 0)]),
            Log::Dir(dir) | Log::Bundle(dir) => {
                segment::files(dir).map_err(|error| ScanError::new(dir, error))
            }
        }
    }

    fn look(&mut self, path: &Path) -> io::Result<Option<Segment>> {
        let metadata = path.metadata()?;
        let (inode, bytes) = (metadata.ino(), metadata.len());
        let key = (path.to_owned(), inode);
        // The file that is written may be another by now; all others are closed.
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
    let mut lines = Lines::open_at_beginning(path)?;
    // A damaged first line is for `verify` to find; its number follows from later lines.
    while let FoundLine::Line(line) = lines.next()? {
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
