//! Runs queries concurrently and prints their results in order: a bounded number is in flight, and
//! with none free it waits for the first of them.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, TryRecvError};

/// Results in flight. Most wait for robots.txt files of different origins.
const IN_FLIGHT_MAX: usize = 64;

/// The text to print, and a note for the caller.
pub struct Rendered<T> {
    pub text: String,
    pub note: T,
}

/// A result in its place of the output.
pub enum Slot<T> {
    Ready(Rendered<T>),
    Pending(Receiver<Rendered<T>>),
}

/// Prints results in the order of their questions, whatever order they come in.
pub struct OrderedOutput<W, T> {
    slots: VecDeque<Slot<T>>,
    out: W,
    notes: Vec<T>,
}

impl<W: Write, T: PartialEq> OrderedOutput<W, T> {
    /// Prints to `out`; nothing is waited for yet.
    pub fn new(out: W) -> Self {
        Self { slots: VecDeque::new(), out, notes: Vec::new() }
    }

    /// Text before all results.
    pub fn head(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Adds the next one, and prints those that are ready.
    pub fn push(&mut self, slot: Slot<T>) -> io::Result<()> {
        self.slots.push_back(slot);
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                Slot::Ready(result) => self.print(result)?,
                Slot::Pending(receiver) => match receiver.try_recv() {
                    Ok(result) => self.print(result)?,
                    Err(TryRecvError::Empty) if self.slots.len() < IN_FLIGHT_MAX => {
                        self.slots.push_front(Slot::Pending(receiver));
                        return Ok(());
                    }
                    Err(_) => self.wait(&receiver)?,
                },
            }
        }
        Ok(())
    }

    /// Prints all in flight, and flushes the output.
    pub fn settle(&mut self) -> io::Result<()> {
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                Slot::Ready(result) => self.print(result)?,
                Slot::Pending(receiver) => self.wait(&receiver)?,
            }
        }
        self.out.flush()
    }

    /// Every note, once.
    pub fn notes(&self) -> &[T] {
        &self.notes
    }

    fn wait(&mut self, receiver: &Receiver<Rendered<T>>) -> io::Result<()> {
        // A sender dropped without a result has panicked: later results would be printed out of
        // order.
        let result = receiver.recv().map_err(|_| io::Error::other("an answer was lost"))?;
        self.print(result)
    }

    fn print(&mut self, result: Rendered<T>) -> io::Result<()> {
        if !self.notes.contains(&result.note) {
            self.notes.push(result.note);
        }
        self.out.write_all(result.text.as_bytes())
    }
}

// Reads lines from a stream, each bounded, and reports whether the next one would block: then
// pending results must be printed first. A byte order mark at the beginning is no content: editors
// on Windows write it.

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
        let most = self.line_max as u64 + 1;
        if (&mut self.reader).take(most).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(Next::End);
        }
        let is_first = std::mem::take(&mut self.is_first);
        let line = match self.line.strip_suffix(b"\n") {
            None if self.line.len() > self.line_max => {
                self.reader.skip_until(b'\n')?;
                return Ok(Next::TooLong);
            }
            line => line.unwrap_or(&self.line),
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
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
