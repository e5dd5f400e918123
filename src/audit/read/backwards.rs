//! Reads a plain file of a log from a line on backwards, in blocks of whole lines.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::audit::{AnyLine, RECORD_LINE_BYTES_MAX};

/// Bytes that are read at once where one line is looked for.
const PROBE_BYTES: usize = 8 << 10;

/// A plain file. What is appended after it was opened is not seen.
#[derive(Debug)]
pub struct BackwardReader {
    file: File,
    /// Where the part begins that has been given: a line begins there, or the file ends.
    begin: u64,
    /// With [`Self::begin`] in the middle of a line: what of that line has been read, with its end.
    tail: Vec<u8>,
    block: Vec<u8>,
    /// Bytes of the block before the first line that is whole.
    skipped: usize,
    /// Bytes that were read.
    pub bytes: u64,
}

impl BackwardReader {
    /// Whose first block ends before the line `before`. The lines are taken to be in the order of their numbers, as a
    /// writer leaves them; bytes behind the last line end are no line yet.
    pub fn open(file: File, before: u64) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let (tail, block) = (Vec::new(), Vec::new());
        let mut reader = Self { file, begin: 0, tail, block, skipped: 0, bytes: 0 };
        let end = reader.last_end(length)?;
        reader.begin = if before == u64::MAX { end } else { reader.find(before, end)? };
        Ok(reader)
    }

    /// Reads the block of at most `bytes` before what was given; `false` at the beginning of the file.
    pub fn next(&mut self, bytes: usize) -> io::Result<bool> {
        if self.begin == 0 {
            return Ok(false);
        }
        let start = self.begin.saturating_sub(bytes as u64);
        let length = usize::try_from(self.begin - start).unwrap_or(bytes);
        self.block.resize(length, 0);
        self.file.read_exact_at(&mut self.block, start)?;
        self.bytes += length as u64;
        self.begin = start;
        let first = memchr::memchr(b'\n', &self.block).map(|at| at + 1).filter(|at| *at < length);
        self.block.append(&mut self.tail);
        self.skipped = match first {
            _ if start == 0 => 0,
            Some(first) => first,
            None => self.block.len(),
        };
        self.tail.extend_from_slice(&self.block[..self.skipped]);
        if self.tail.len() > 2 * RECORD_LINE_BYTES_MAX + bytes {
            // No line is so long. That it was one is seen by what is left of it.
            self.tail.clear();
            self.tail.push(b'\n');
        }
        Ok(true)
    }

    /// The whole lines of the block without their ends, the last first.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.block[self.skipped..];
        std::iter::from_fn(move || {
            let line = rest.strip_suffix(b"\n")?;
            let begin = memchr::memrchr(b'\n', line).map_or(0, |at| at + 1);
            rest = &rest[..begin];
            Some(&line[begin..])
        })
    }

    /// Where the last line ends, of which there is an end.
    fn last_end(&mut self, length: u64) -> io::Result<u64> {
        let mut end = length;
        let mut bytes = [0; PROBE_BYTES];
        while end > 0 {
            let start = end.saturating_sub(PROBE_BYTES as u64);
            let part = &mut bytes[..usize::try_from(end - start).unwrap_or(PROBE_BYTES)];
            self.file.read_exact_at(part, start)?;
            self.bytes += part.len() as u64;
            if let Some(at) = memchr::memrchr(b'\n', part) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    }

    /// Where the first line begins whose number is not below `before`, by halves; `end` where there is none.
    fn find(&mut self, before: u64, end: u64) -> io::Result<u64> {
        let (mut low, mut high, mut found) = (0, end, end);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_line(low, middle, high)? {
                Some((begin, _, seq)) if seq >= before => (found, high) = (begin, middle),
                Some((_, after, _)) => low = after,
                None => high = middle,
            }
        }
        Ok(found)
    }

    /// The first line that can be read of those that begin from `from` on and before `to`: where it begins and ends, and
    /// its number. At `low` a line begins.
    fn first_line(&mut self, low: u64, from: u64, to: u64) -> io::Result<Option<(u64, u64, u64)>> {
        let mut begin = if from == low { low } else { self.line_end(from - 1)?.0 };
        while begin < to {
            let (after, line) = self.line_end(begin)?;
            if let Ok(AnyLine { seq, .. }) = AnyLine::parse(&line) {
                return Ok(Some((begin, after, seq)));
            }
            begin = after;
        }
        Ok(None)
    }

    /// Where the line ends that has the byte `at`, and its text from there on without its end, as far as a line is long.
    fn line_end(&mut self, at: u64) -> io::Result<(u64, Vec<u8>)> {
        let (mut position, mut line) = (at, Vec::new());
        let mut bytes = [0; PROBE_BYTES];
        loop {
            let read = self.file.read_at(&mut bytes, position)?;
            self.bytes += read as u64;
            let end = memchr::memchr(b'\n', &bytes[..read]);
            if line.len() <= RECORD_LINE_BYTES_MAX {
                line.extend_from_slice(&bytes[..end.unwrap_or(read)]);
            }
            match end {
                Some(end) => return Ok((position + end as u64 + 1, line)),
                None if read == 0 => return Ok((position, line)),
                None => position += read as u64,
            }
        }
    }
}
