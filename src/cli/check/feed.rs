//! Reads lines from a stream, each bounded, and reports whether the next one would block: then
//! pending results must be printed first. A byte order mark at the beginning is no content: editors
//! on Windows write it.

use std::io::{self, BufRead, BufReader, Read};

/// The bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines of bounded length.
pub struct Feed<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    line_max: usize,
    is_first: bool,
}

/// The next item.
pub enum Next<'a> {
    Line(&'a [u8]),
    /// A line beyond the bound; it has been skipped.
    TooLong,
    End,
}

impl<R: Read> Feed<R> {
    /// Lines of `stream`, of at most `line_max` bytes each.
    pub fn new(stream: R, line_max: usize) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, stream);
        Self { reader, line: Vec::new(), line_max, is_first: true }
    }

    /// Whether the next line can be read without blocking.
    pub fn has_line(&self) -> bool {
        memchr::memchr(b'\n', self.reader.buffer()).is_some()
    }

    /// The next line, without its end. The last one need not have one.
    pub fn next(&mut self) -> io::Result<Next<'_>> {
        self.line.clear();
        let mut length = 0;
        loop {
            let bytes = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            if bytes.is_empty() && length == 0 {
                return Ok(Next::End);
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            length += part.len();
            if length <= self.line_max {
                self.line.extend_from_slice(part);
            }
            let taken = end.map_or(bytes.len(), |end| end + 1);
            self.reader.consume(taken);
            if end.is_some() || taken == 0 {
                break;
            }
        }
        let is_first = std::mem::take(&mut self.is_first);
        if length > self.line_max {
            return Ok(Next::TooLong);
        }
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        Ok(Next::Line(line.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_first).unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_the_last_needs_no_end() {
        let mut feed = Feed::new(&b"\xEF\xBB\xBFa\n\r\n12345\nlast"[..], 4);
        let mut seen = Vec::new();
        loop {
            match feed.next().unwrap() {
                Next::Line(line) => seen.push(String::from_utf8_lossy(line).into_owned()),
                Next::TooLong => seen.push("too long".into()),
                Next::End => break,
            }
        }
        assert_eq!(seen, ["a", "", "too long", "last"]);
    }
}
