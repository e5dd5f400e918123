//! A page of lines, the newest first, from a place on backwards: segments are read from the newest on, each from its
//! beginning, and only the lines of one page are kept, whatever the size of the log.

use std::collections::VecDeque;

use super::block::{Block, BlockReader, Found, Log, ScanError};
use super::scan::Listing;
use crate::audit::AnyLine;
use crate::types::timestamp::Timestamp;

/// Bytes of the log that are held at once: room for any line.
const BLOCK_BYTES: usize = 256 << 10;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// Only lines with a smaller number in the chain.
    pub before: Option<u64>,
    /// Lines at most.
    pub limit: usize,
    /// Bytes, as they are stored, after which no other segment is begun: the search goes on from the cursor.
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
    /// Bytes that were read, as they are stored.
    pub bytes: u64,
    /// Segments that were opened.
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
    mut wants: impl FnMut(&[u8]) -> bool,
) -> Result<LinePage, ScanError> {
    let mut listing = Listing::new(log);
    if let Some(error) = listing.refresh()?.into_iter().next() {
        return Err(error);
    }
    let before = request.before.unwrap_or(u64::MAX);
    let mut found = LinePage::default();
    let mut next_time: Option<Timestamp> = None;
    for segment in listing.segments.iter().rev() {
        let begins_after = |until| segment.first_time.is_some_and(|time| until <= time);
        let is_over = request.since.zip(next_time).is_some_and(|(since, next)| next < since);
        next_time = segment.first_time.or(next_time);
        if segment.first_seq >= before || request.until.is_some_and(begins_after) {
            continue;
        }
        if is_over {
            return Ok(found);
        }
        if found.bytes >= request.bytes_max {
            found.older =
                Some(found.older.unwrap_or(before).min(last_of(&listing, segment.first_seq)));
            return Ok(found);
        }
        let room = request.limit - found.lines.len();
        let mut kept = VecDeque::with_capacity(room + 1);
        let mut reader = BlockReader::open(&segment.path, BLOCK_BYTES)
            .map_err(|error| ScanError::new(&segment.path, error))?;
        found.segments += 1;
        loop {
            match reader.next().map_err(|error| ScanError::new(&segment.path, error))? {
                Found::Lines => {}
                Found::TooLong => {
                    found.damaged += 1;
                    continue;
                }
                Found::End => break,
            }
            let block = Block::new(&segment.path, reader.bytes(), reader.lines_before);
            for line in block.lines() {
                let Ok(AnyLine { seq, .. }) = AnyLine::parse(line.bytes) else {
                    found.damaged += 1;
                    continue;
                };
                if seq < before && wants(line.bytes) {
                    kept.push_back((seq, line.bytes.to_vec()));
                    if kept.len() > room {
                        kept.pop_front();
                    }
                }
            }
        }
        found.bytes += reader.position();
        found.lines.extend(kept.into_iter().rev());
        if found.lines.len() >= request.limit {
            found.older = found.lines.last().map(|(seq, _)| *seq);
            return Ok(found);
        }
    }
    Ok(found)
}

/// The number before which a segment ends: that with which the next one begins.
fn last_of(listing: &Listing, first_seq: u64) -> u64 {
    let next = listing.segments.iter().find(|segment| segment.first_seq > first_seq);
    next.map_or(u64::MAX, |next| next.first_seq)
}
