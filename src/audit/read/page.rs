//! A page of lines, the newest first, from a place on backwards: segments are read from the newest on, a plain one from
//! its end, a compressed one from its beginning, and only the lines of one page are kept, whatever the size of the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::backwards::BackwardReader;
use super::block::{Block, BlockReader, Found, Log, ScanError};
use super::scan::{Listing, Segment};
use crate::audit::{AnyLine, LISTINGS_MAX, segment};
use crate::types::timestamp::Timestamp;

/// Bytes of the log that are held at once: room for any line.
const BLOCK_BYTES: usize = 256 << 10;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Only lines with a smaller number in the chain.
    pub before: Option<u64>,
    /// Only lines with a greater number; 0: all.
    pub after: u64,
    /// Lines at most.
    pub limit: usize,
    /// Bytes, as they are stored, after which no other segment is begun, and a plain one is left: the search goes on from
    /// the cursor.
    pub bytes_max: u64,
    /// Segments of another time are passed over.
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// Lines of a log.
#[derive(Clone, Debug, Default)]
pub struct LinePage {
    /// Without their ends, the newest first, each with its number.
    pub lines: Vec<(u64, Vec<u8>)>,
    /// Where the next page begins (`before`); none where the beginning of the log was reached.
    pub older: Option<u64>,
    /// The number of the first line that was looked at, which is the newest of them.
    pub newest: Option<u64>,
    /// Bytes that were read, as they are stored.
    pub bytes: u64,
    /// Segments that were read.
    pub segments: usize,
    /// Lines that cannot be read were passed over.
    pub damaged: u64,
}

/// The lines that `wants` admits.
///
/// # Errors
///
/// The log cannot be listed, or a segment cannot be read.
pub fn page(
    log: Log,
    request: PageRequest,
    wants: impl FnMut(&[u8]) -> bool,
) -> Result<LinePage, ScanError> {
    let mut listing = Listing::new(log);
    if let Some(error) = listing.refresh()?.into_iter().next() {
        return Err(error);
    }
    let cursor = request.before.unwrap_or(u64::MAX);
    let mut search = PageSearch { request, wants, cursor, found: LinePage::default(), moved: 0 };
    while search.cursor > request.after.saturating_add(1)
        && let Some(segment) = listing.segments.iter().rev().find(|it| it.first_seq < search.cursor)
    {
        if listing.is_of_another_time(segment, request.since, request.until) {
            search.cursor = segment.first_seq;
            continue;
        }
        let is_enough = search.found.bytes >= request.bytes_max && search.found.segments > 0;
        if is_enough || search.room() == 0 {
            return Ok(search.ended());
        }
        let read = search.segment(segment);
        match read.map_err(|error| ScanError::new(&segment.path, error))? {
            SegmentRead::Whole => search.cursor = segment.first_seq,
            SegmentRead::Enough => return Ok(search.ended()),
            // Renamed, compressed or removed since it was listed.
            SegmentRead::Moved => {
                listing.refresh()?;
            }
        }
    }
    Ok(search.found)
}

/// What became of a segment.
enum SegmentRead {
    Whole,
    /// The page is full, or the bytes are spent.
    Enough,
    /// It is another file by now.
    Moved,
}

/// A page as it is made.
struct PageSearch<W> {
    request: PageRequest,
    wants: W,
    /// Lines of this number and above have been looked at.
    cursor: u64,
    found: LinePage,
    /// How often a file had moved.
    moved: usize,
}

impl<W> PageSearch<W>
where
    W: FnMut(&[u8]) -> bool,
{
    fn room(&self) -> usize {
        self.request.limit.saturating_sub(self.found.lines.len())
    }

    /// There may be more.
    fn ended(self) -> LinePage {
        LinePage { older: Some(self.cursor), ..self.found }
    }

    fn segment(&mut self, segment: &Segment) -> io::Result<SegmentRead> {
        let file = match File::open(&segment.path) {
            Ok(file) if file.metadata()?.ino() == segment.inode => file,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) if self.moved >= LISTINGS_MAX => {
                return Err(io::Error::other("its files do not keep their names"));
            }
            Ok(_) | Err(_) => {
                self.moved += 1;
                return Ok(SegmentRead::Moved);
            }
        };
        if segment::is_compressed(&file)? { self.forwards(segment) } else { self.backwards(file) }
    }

    fn backwards(&mut self, file: File) -> io::Result<SegmentRead> {
        let mut reader = BackwardReader::open(file, self.cursor)?;
        self.found.segments += 1;
        let mut counted = 0;
        loop {
            let is_block = reader.next(BLOCK_BYTES)?;
            self.found.bytes += reader.bytes - counted;
            counted = reader.bytes;
            if !is_block {
                return Ok(SegmentRead::Whole);
            }
            let mut is_further = false;
            for line in reader.lines() {
                let Ok(AnyLine { seq, .. }) = AnyLine::parse(line) else {
                    self.found.damaged += 1;
                    continue;
                };
                if seq >= self.cursor {
                    continue;
                }
                if seq <= self.request.after {
                    return Ok(SegmentRead::Whole);
                }
                self.found.newest.get_or_insert(seq);
                (self.cursor, is_further) = (seq, true);
                if (self.wants)(line) {
                    self.found.lines.push((seq, line.to_vec()));
                    if self.room() == 0 {
                        return Ok(SegmentRead::Enough);
                    }
                }
            }
            if is_further && self.found.bytes >= self.request.bytes_max {
                return Ok(SegmentRead::Enough);
            }
        }
    }

    fn forwards(&mut self, segment: &Segment) -> io::Result<SegmentRead> {
        let mut reader = match BlockReader::open(&segment.path, BLOCK_BYTES) {
            Ok(reader) if reader.inode == segment.inode => reader,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => return Ok(SegmentRead::Moved),
        };
        self.found.segments += 1;
        let room = self.room();
        let (mut kept, mut newest) = (VecDeque::new(), None);
        'file: loop {
            match reader.next()? {
                Found::Lines => {}
                Found::TooLong => {
                    self.found.damaged += 1;
                    continue;
                }
                Found::End => break,
            }
            for line in Block::new(&segment.path, reader.bytes(), reader.lines_before).lines() {
                let Ok(AnyLine { seq, .. }) = AnyLine::parse(line.bytes) else {
                    self.found.damaged += 1;
                    continue;
                };
                if seq >= self.cursor {
                    break 'file;
                }
                if seq <= self.request.after {
                    continue;
                }
                newest = Some(seq);
                if (self.wants)(line.bytes) {
                    kept.push_back((seq, line.bytes.to_vec()));
                    if kept.len() > room {
                        kept.pop_front();
                    }
                }
            }
        }
        self.found.bytes += reader.position();
        self.found.newest = self.found.newest.or(newest);
        self.found.lines.extend(kept.into_iter().rev());
        if self.room() > 0 {
            return Ok(SegmentRead::Whole);
        }
        self.cursor = self.found.lines.last().map_or(segment.first_seq, |(seq, _)| *seq);
        Ok(SegmentRead::Enough)
    }
}

#[cfg(test)]
mod tests;
