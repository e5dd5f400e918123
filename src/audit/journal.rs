//! The file of records: append-only lines, always whole. What a crash or a full disk left behind
//! half written is taken away again before anything else is written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::line::{Content, Head, split};
use crate::limits::RECORD_TAIL_OCTETS_MAX;

/// The file, open at its end.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Octets of whole lines.
    whole: u64,
    /// Whether there may be part of a line beyond `whole`.
    torn: bool,
}

/// What was found at the end of the file.
#[derive(Debug)]
pub struct Tail {
    /// The last line.
    pub head: Head,
    /// Octets that were no whole record, and have been set aside.
    pub torn: usize,
}

impl Journal {
    /// Opens or makes the file; what follows the last whole record is moved to `torn_path`.
    pub fn open(path: &Path, torn_path: &Path) -> io::Result<(Self, Tail)> {
        let file = private().read(true).append(true).open(path)?;
        let length = file.metadata()?.len();
        let mut journal = Self { file, path: path.to_owned(), whole: length, torn: false };
        let (tail, rest) = journal.read_tail(length)?;
        if !rest.is_empty() {
            let mut torn = private().append(true).open(torn_path)?;
            torn.write_all(&rest)?;
            torn.write_all(b"\n")?;
            torn.sync_all()?;
            journal.cut()?;
        }
        Ok((journal, tail))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends whole lines with one write. On error the file is as it was before.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.append_with(lines, |file, lines| file.write_all(lines))
    }

    /// To the disk itself.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn append_with(
        &mut self,
        lines: &[u8],
        write: impl FnOnce(&mut File, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.cut()?;
        self.torn = true;
        if let Err(error) = write(&mut self.file, lines) {
            // The first error is the one to tell; a cut that fails is tried again before next time.
            let _ = self.cut();
            return Err(error);
        }
        self.torn = false;
        self.whole += lines.len() as u64;
        Ok(())
    }

    fn cut(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.whole)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Finds the last whole record, and all that follows it.
    fn read_tail(&mut self, length: u64) -> io::Result<(Tail, Vec<u8>)> {
        let start = length.saturating_sub(RECORD_TAIL_OCTETS_MAX);
        let mut tail = Vec::new();
        self.file.seek(SeekFrom::Start(start))?;
        (&self.file).take(length - start).read_to_end(&mut tail)?;
        let mut end = 0;
        let mut head = None;
        for (line_start, line_end) in lines_backwards(&tail) {
            let line = &tail[line_start..line_end];
            if let (Ok(content), Some((_, hash))) = (Content::parse(line), split(line)) {
                (head, end) = (Some(Head { hash: hash.to_owned(), seq: content.seq() }), line_end + 1);
                break;
            }
        }
        if head.is_none() && start > 0 {
            let problem = "there is no record to go on from at its end; move it away to begin another";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let rest = tail.split_off(end);
        self.whole = start + end as u64;
        self.torn = !rest.is_empty();
        Ok((Tail { head: head.unwrap_or_else(Head::genesis), torn: rest.len() }, rest))
    }
}

/// Lines that have their end, from the last to the first, without it.
fn lines_backwards(octets: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut ends = memchr::memrchr_iter(b'\n', octets).peekable();
    std::iter::from_fn(move || {
        let end = ends.next()?;
        Some((ends.peek().map_or(0, |before| before + 1), end))
    })
}

/// Readable and writable by nobody else: a record says who asked for what.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(dir: &Path) -> (Journal, Tail) {
        Journal::open(&dir.join("denials.jsonl"), &dir.join("denials.torn")).unwrap()
    }

    #[test]
    fn half_a_line_is_taken_away_when_the_disk_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let (mut journal, _) = journal(dir.path());
        journal.append(b"one\n").unwrap();
        let full = journal.append_with(b"two\n", |file, lines| {
            file.write_all(&lines[..2])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(std::fs::read(journal.path()).unwrap(), b"one\n");
        journal.append(b"three\n").unwrap();
        assert_eq!(std::fs::read(journal.path()).unwrap(), b"one\nthree\n");
    }

    #[test]
    fn a_file_without_any_record_is_set_aside_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("denials.jsonl"), "not\na record").unwrap();
        let (_, tail) = journal(dir.path());
        assert_eq!((tail.head.seq, tail.torn), (0, 12));
        assert_eq!(std::fs::read(dir.path().join("denials.jsonl")).unwrap(), b"");
        assert_eq!(std::fs::read(dir.path().join("denials.torn")).unwrap(), b"not\na record\n");
    }
}
