//! A page of lines, the newest first, from a place on backwards: segments are read from the newest on, a plain one from
//! its end, a compressed one part by part from the last one, as its summary tells of them, or without one from its
//! beginning. Only the lines of one page are kept, whatever the size of the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::backwards::BackwardReader;
use super::block::{Block, BlockReader, Found, Log, ScanError};
use super::scan::{Listing, Segment};
use crate::audit::summary::{Needs, SegmentPart, SegmentSummary};
use crate::audit::{AnyLine, LISTINGS_MAX, segment};

/// Bytes of the log that are held at once: room for any line.
const BLOCK_BYTES: usize = 256 << 10;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest<'a> {
    /// Only lines with a smaller number in the chain.
    pub before: Option<u64>,
    /// Only lines with a greater number; 0: all.
    pub after: u64,
    /// Lines at most.
    pub limit: usize,
    /// Bytes, as they are stored, after which no other segment is begun, and a plain one is left: the search goes on from
    /// the cursor.
    pub bytes_max: u64,
    /// Segments, and parts of them, that have nothing of that are passed over.
    pub needs: &'a Needs,
    /// Segments without a summary are passed over: those that are not compressed, and those of earlier versions.
    pub summarised_only: bool,
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
    request: PageRequest<'_>,
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
        if listing.is_of_another_time(segment, request.needs.since, request.needs.until) {
            search.cursor = segment.first_seq;
            continue;
        }
        if search.is_enough() {
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

/// The last line before `before` that `wants` admits, of which there is one as a rule: looked for first where a summary
/// tells that it may be, for without one a whole segment is read to find that it has it not.
///
/// # Errors
///
/// As those of [`page`].
pub fn one(
    log: &Log,
    before: Option<u64>,
    needs: &Needs,
    wants: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>, ScanError> {
    for summarised_only in [true, false] {
        let (after, limit, bytes_max) = (0, 1, u64::MAX);
        let request = PageRequest { before, after, limit, bytes_max, needs, summarised_only };
        if let Some((_, line)) = page(log.clone(), request, &wants)?.lines.pop() {
            return Ok(Some(line));
        }
    }
    Ok(None)
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
struct PageSearch<'a, W> {
    request: PageRequest<'a>,
    wants: W,
    /// Lines of this number and above have been looked at.
    cursor: u64,
    found: LinePage,
    /// How often a file had moved.
    moved: usize,
}

impl<W> PageSearch<'_, W>
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

    /// Whether the page is full, or its bytes are spent, and it has come further than the page before.
    fn is_enough(&self) -> bool {
        let is_further = self.cursor < self.request.before.unwrap_or(u64::MAX);
        self.room() == 0 || is_further && self.found.bytes >= self.request.bytes_max
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
        if segment::is_compressed(&file)? {
            self.compressed(&file, segment)
        } else if self.request.summarised_only {
            Ok(SegmentRead::Whole)
        } else {
            self.backwards(file)
        }
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

    /// Reads the parts that its summary tells of, the last one first; without a summary the whole of it.
    fn compressed(&mut self, file: &File, segment: &Segment) -> io::Result<SegmentRead> {
        let (summary, bytes) = SegmentSummary::read(&segment.path, file);
        self.found.bytes += bytes;
        let first_seq = segment.first_seq;
        let part = SegmentPart { first_seq, range: 0..segment.bytes };
        let whole = || Some(part).filter(|_| !self.request.summarised_only).into_iter().collect();
        if let Some(summary) = &summary {
            // Its last line before the cursor counts as looked at.
            let last = summary.last_seq.min(self.cursor.saturating_sub(1));
            self.found.newest.get_or_insert(last);
        }
        let parts = summary.map_or_else(whole, |it| it.parts(self.request.needs));
        let mut is_begun = false;
        for part in parts.iter().rev() {
            if self.cursor <= self.request.after.saturating_add(1) {
                break;
            }
            if part.first_seq >= self.cursor {
                continue;
            }
            if self.is_enough() {
                return Ok(SegmentRead::Enough);
            }
            self.found.segments += usize::from(!std::mem::replace(&mut is_begun, true));
            self.forwards(file, segment, part)?;
        }
        Ok(if self.room() > 0 { SegmentRead::Whole } else { SegmentRead::Enough })
    }

    /// Looks at the lines before the cursor, and moves it to the first of them, or to the last that has room.
    fn forwards(&mut self, file: &File, segment: &Segment, part: &SegmentPart) -> io::Result<()> {
        let range = part.range.clone();
        let mut reader = BlockReader::of_members(&segment.path, file, range, BLOCK_BYTES)?;
        let room = self.room();
        let (mut kept, mut newest) = (VecDeque::new(), None);
        'part: loop {
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
                    break 'part;
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
        self.found.bytes += reader.position() - part.range.start;
        self.found.newest = self.found.newest.or(newest);
        self.found.lines.extend(kept.into_iter().rev());
        self.cursor = match self.found.lines.last() {
            Some((seq, _)) if self.room() == 0 => *seq,
            _ => part.first_seq,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
