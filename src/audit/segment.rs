//! The files of a log. The one that is written is `denials.jsonl`; closed ones are named by the
//! number of their first line, `denials-000000000001.jsonl`, and compressed, `….jsonl.gz`. What
//! another program has rotated away, as earlier versions let it (`denials.jsonl.1`,
//! `denials.jsonl-20261121.gz`), is read, too: a file's place follows from its first line, never from
//! its name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::{DirEntryExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use super::record::chain::{AnyLine, Head, checked_hash};
use super::record::verifier_key::VerifierKey;
use super::{LISTINGS_MAX, RECORD_LINE_BYTES_MAX};
use crate::types::LogId;
use crate::types::timestamp::Timestamp;

/// The file that is being written, in its directory.
pub const FILE_NAME: &str = "denials.jsonl";
const STEM: &str = "denials";

/// Bytes of a compressed segment that are read at once.
const READ_AT_ONCE: usize = 64 << 10;

/// The same where its first line is looked for.
const READ_OF_BEGINNING: usize = 8 << 10;

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    /// The number of its first line.
    pub first_seq: u64,
    pub path: PathBuf,
}

/// The lines of one file, one after the other, in bounded memory.
pub struct Lines {
    input: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Of the last line that was read, counted from 1.
    pub number: u64,
    /// Bytes read, after decompression.
    pub bytes: u64,
}

/// What [`Lines::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub enum FoundLine<'a> {
    /// A line, without its end.
    Line(&'a [u8]),
    /// Bytes at the end of the file that have no line end, or none within the bound.
    Rest(&'a [u8]),
    End,
}

/// The name of a closed segment that begins with the line `first_seq`.
pub fn closed_name(first_seq: u64) -> String {
    format!("{STEM}-{first_seq:012}.jsonl")
}

/// The number of its first line, as the name of a closed segment tells it.
pub fn named_seq(path: &Path) -> Option<u64> {
    let (first_seq, suffix) = ours(path.file_name()?.to_str()?)?;
    suffix.starts_with(".jsonl").then_some(first_seq)
}

/// The number in a name that we give, and what follows it.
pub fn ours(name: &str) -> Option<(u64, &str)> {
    let digits = name.strip_prefix(STEM)?.strip_prefix('-')?;
    let (digits, suffix) = digits.split_at(digits.find('.')?);
    let first_seq = digits.parse().ok()?;
    // And not `denials-20261121.jsonl`, as logrotate names files.
    (format!("{first_seq:012}") == digits).then_some((first_seq, suffix))
}

/// The segments of the log in `dir` in the order of the chain, all of them even while some are being
/// closed or compressed. Files without a first line are left out. Of a segment that is there plain
/// and compressed, one is given.
pub fn list(dir: &Path) -> io::Result<Vec<Segment>> {
    let mut files = files(dir)?;
    for _ in 0..LISTINGS_MAX {
        let mut segments = Vec::new();
        for (path, _) in &files {
            if let Some(first_seq) = first_seq(path)? {
                segments.push(Segment { first_seq, path: path.clone() });
            }
        }
        // A file whose name changed meanwhile may have been missed under either.
        let before = std::mem::replace(&mut files, self::files(dir)?);
        if before == files {
            segments.sort();
            segments.dedup_by_key(|segment| segment.first_seq);
            return Ok(segments);
        }
    }
    Err(io::Error::other(format!("the files in {} do not keep their names", dir.display())))
}

/// The files of the log in `dir`, with the numbers that tell files apart, in the order of their names.
pub fn files(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let entries =
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| (entry.path(), entry.ino())));
    let mut files = entries.collect::<io::Result<Vec<_>>>()?;
    files.retain(|(path, _)| is_segment(path));
    files.sort();
    Ok(files)
}

/// By its name: `denials`, then `.jsonl` anywhere, and none of the suffixes of unfinished work.
pub fn is_segment(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with(STEM)
        && name.contains(".jsonl")
        && !name.ends_with(".tmp")
        && !name.ends_with(".evidence")
}

/// The number of the first line of a file; `None` where it has none, or has gone meanwhile.
pub fn first_seq(path: &Path) -> io::Result<Option<u64>> {
    let mut lines = match Lines::open_at_beginning(path) {
        Ok(lines) => lines,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A damaged first line is for `verify` to find; its number follows from later lines.
    loop {
        match lines.next()? {
            FoundLine::Line(line) => {
                if let Ok(AnyLine { seq, .. }) = AnyLine::parse(line) {
                    return Ok(Some(seq.saturating_sub(lines.number - 1)));
                }
            }
            FoundLine::Rest(_) | FoundLine::End => return Ok(None),
        }
    }
}

/// What is in the place of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineThere {
    /// A line with this hash, as written.
    Hash(String),
    /// None: the log ends before it, or what is there is damaged.
    Absent,
    /// None: the log begins after it.
    Removed,
}

/// Looks for the line `seq` of the log in `dir`.
pub fn look_for(dir: &Path, seq: u64) -> io::Result<LineThere> {
    let segments = list(dir)?;
    let Some(segment) = segments.iter().rev().find(|segment| segment.first_seq <= seq) else {
        return Ok(if segments.is_empty() { LineThere::Absent } else { LineThere::Removed });
    };
    let mut lines = segment.lines()?;
    loop {
        let FoundLine::Line(line) = lines.next()? else { return Ok(LineThere::Absent) };
        if AnyLine::parse(line).is_ok_and(|any| any.seq == seq) {
            let hash = checked_hash(line).map(str::to_owned);
            return Ok(hash.map_or(LineThere::Absent, LineThere::Hash));
        }
    }
}

/// Whether a segment begins as a compressed one does.
pub fn is_compressed(file: &File) -> io::Result<bool> {
    let mut magic = [0; 2];
    Ok(file.read_at(&mut magic, 0)? == magic.len() && magic == [0x1f, 0x8b])
}

/// The text of a segment; its first bytes show whether it is compressed.
pub fn text(file: File) -> io::Result<Box<dyn Read + Send>> {
    text_by(file, READ_AT_ONCE)
}

fn text_by(file: File, at_once: usize) -> io::Result<Box<dyn Read + Send>> {
    Ok(if is_compressed(&file)? {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(at_once, file)))
    } else {
        Box::new(file)
    })
}

/// The text of whole members of a compressed segment, which stand at `range`.
pub fn text_of_members(mut file: File, range: Range<u64>) -> io::Result<impl Read + Send> {
    file.seek(SeekFrom::Start(range.start))?;
    let file = file.take(range.end - range.start);
    Ok(MultiGzDecoder::new(BufReader::with_capacity(READ_AT_ONCE, file)))
}

impl Segment {
    /// Its lines; also when it has been compressed since it was listed.
    pub fn lines(&self) -> io::Result<Lines> {
        match Lines::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Lines::open(&self.path.with_added_extension("gz"))
            }
            opened => opened,
        }
    }
}

impl Lines {
    /// Opens a segment, compressed or not.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(File::open(path)?)
    }

    /// Of an open segment, compressed or not.
    pub fn of(file: File) -> io::Result<Self> {
        Self::new(file, READ_AT_ONCE, 256 << 10)
    }

    /// As [`Self::open`], to read the first lines.
    pub fn open_at_beginning(path: &Path) -> io::Result<Self> {
        Self::new(File::open(path)?, READ_OF_BEGINNING, READ_OF_BEGINNING)
    }

    fn new(file: File, at_once: usize, held: usize) -> io::Result<Self> {
        let input = Box::new(BufReader::with_capacity(held, text_by(file, at_once)?));
        Ok(Self { input, line: Vec::new(), number: 0, bytes: 0 })
    }

    /// The next line. Not an iterator: a line is good until the next is asked for.
    #[expect(clippy::should_implement_trait, reason = "what it gives is borrowed from itself")]
    pub fn next(&mut self) -> io::Result<FoundLine<'_>> {
        self.line.clear();
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                break;
            }
            let end = memchr::memchr(b'\n', buffer);
            let taken = end.map_or(buffer.len(), |end| end + 1);
            self.line.extend_from_slice(&buffer[..taken]);
            self.input.consume(taken);
            if end.is_some() {
                self.number += 1;
                self.bytes += self.line.len() as u64;
                self.line.pop();
                return Ok(FoundLine::Line(&self.line));
            }
            if self.line.len() > RECORD_LINE_BYTES_MAX {
                break;
            }
        }
        self.bytes += self.line.len() as u64;
        if self.line.is_empty() { Ok(FoundLine::End) } else { Ok(FoundLine::Rest(&self.line)) }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Creates files that only their owner may read and write: a record names clients and URLs.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Makes a file that appears whole or not at all, and is on the disk when it does.
pub fn write_whole(path: &Path, write: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let unfinished = path.with_added_extension("tmp");
    let file = private().write(true).truncate(true).open(&unfinished)?;
    let written =
        write(&file).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

// `head.json`: the head of the chain a moment ago. With it the chain goes on after another program
// has removed all files, and it is the head to publish. It is written after its lines are with the
// operating system, so it is never ahead of a whole log.

/// The file of the chain's head in the log's directory.
pub const HEAD_NAME: &str = "head.json";

#[derive(Serialize, Deserialize)]
struct Landmark {
    hash: String,
    /// The key that signs its checkpoints; left out where there is none, and by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<VerifierKey>,
    /// The identity of the log; left out by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<LogId>,
    seq: u64,
    #[serde(with = "crate::audit::record::time")]
    time: Timestamp,
}

/// The head noted in `dir`, and when it was noted; `None` without a `head.json`.
pub fn read_head(dir: &Path) -> io::Result<Option<(Head, Timestamp)>> {
    Ok(read(dir)?.map(|Landmark { hash, seq, time, .. }| (Head { hash, seq }, time)))
}

/// The identity of the log in `dir`, as it is noted there; `None`: it is not.
pub fn read_log_id(dir: &Path) -> io::Result<Option<LogId>> {
    Ok(read(dir)?.and_then(|landmark| landmark.log))
}

/// The key of the log in `dir`, as it is noted there; `None`: it is not.
pub fn read_key(dir: &Path) -> io::Result<Option<VerifierKey>> {
    Ok(read(dir)?.and_then(|landmark| landmark.key))
}

fn read(dir: &Path) -> io::Result<Option<Landmark>> {
    let text = match fs::read(dir.join(HEAD_NAME)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let landmark: Landmark = serde_json::from_slice(&text)?;
    if crate::types::sanitize::digest(&landmark.hash).is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its hash is no SHA-256"));
    }
    Ok(Some(landmark))
}

/// The text of a `head.json`.
pub fn head_text(
    head: &Head,
    log: Option<LogId>,
    key: Option<VerifierKey>,
    time: Timestamp,
) -> io::Result<Vec<u8>> {
    let (hash, seq) = (head.hash.clone(), head.seq);
    let mut text = serde_json::to_vec(&Landmark { hash, key, log, seq, time })?;
    text.push(b'\n');
    Ok(text)
}

/// Replaces the noted head, atomically.
pub fn write_head(
    dir: &Path,
    head: &Head,
    log: LogId,
    key: Option<VerifierKey>,
    time: Timestamp,
) -> io::Result<()> {
    let text = head_text(head, Some(log), key, time)?;
    let unfinished = dir.join("head.json.tmp");
    private().write(true).truncate(true).open(&unfinished)?.write_all(&text)?;
    fs::rename(unfinished, dir.join(HEAD_NAME))
}
