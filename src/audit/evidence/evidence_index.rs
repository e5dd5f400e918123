//! `denials-000000000001.evidence`: an index of the evidence that the lines of a closed file name,
//! so that the file need not be read again. Its first line has time, number and hash of the file's
//! last line. The writer's thread hands it over for files that it has written; otherwise the file
//! is read.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Deserialize;

use super::blob::{BlobName, Kind};
use crate::audit::record::chain::{Head, checked_seq, split};
use crate::audit::record::evidence_refs::EvidenceRefs;
use crate::audit::segment::{Found, Lines, closed_name, named_seq};
use crate::audit::{parse_time, print_time};
use crate::types::timestamp::Timestamp;
use crate::types::{LogId, sanitize};

/// What a closed file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceIndex {
    /// Of the last line.
    pub time: Timestamp,
    pub last: Head,
    pub names: HashSet<BlobName>,
}

impl EvidenceIndex {
    /// Builds the index from the lines of the file at `path`. Damaged lines are for `verify` to
    /// find.
    pub fn take(path: &Path, is_over: &dyn Fn() -> bool) -> io::Result<Self> {
        let mut names = HashSet::new();
        let mut last = None;
        each_line(path, is_over, &mut |refs, hash| {
            names.extend(refs.blobs());
            last = Some((refs.time, Head { hash: hash.to_owned(), seq: refs.seq }));
        })?;
        let (time, last) = last.ok_or_else(|| malformed("it has no line that can be read"))?;
        Ok(Self { time, last, names })
    }

    /// Where it is of the segment at `lines`; none where that does not have a name of ours.
    pub fn path_beside(lines: &Path) -> Option<PathBuf> {
        let name = closed_name(named_seq(lines)?);
        Some(lines.with_file_name(name).with_extension("evidence"))
    }

    /// As it was written.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines();
        let top = lines.next().and_then(|top| Some(top.split_once(' ')?.to_owned()));
        let top = top.and_then(|(time, last)| {
            let (seq, hash) = last.split_once(' ')?;
            sanitize::digest(hash)?;
            Some((parse_time(time)?, Head { hash: hash.to_owned(), seq: seq.parse().ok()? }))
        });
        let names: Option<_> = lines.map(name_in_line).collect();
        match (top, names) {
            (Some((time, last)), Some(names)) => Ok(Self { time, last, names }),
            _ => Err(malformed("it is no list of evidence; remove it")),
        }
    }
}

/// As it is written.
impl fmt::Display for EvidenceIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} {}", print_time(self.time), self.last.seq, self.last.hash)?;
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort();
        for (kind, sha256) in names {
            writeln!(f, "{}.{}", sanitize::hex(sha256), extension(*kind))?;
        }
        Ok(())
    }
}

/// What is kept of a line. A file has very many: the rest of each is passed over.
#[derive(Deserialize)]
pub(crate) struct LineRefs<'a> {
    #[serde(borrow)]
    from: Option<EvidenceRefs<'a>>,
    /// The identity of the log, in a line that names it.
    #[serde(default)]
    pub log: Option<LogId>,
    #[serde(borrow)]
    robots: Option<EvidenceRefs<'a>>,
    /// Its number in the chain, from 1.
    pub seq: u64,
    #[serde(with = "crate::audit::record::time")]
    pub time: Timestamp,
    #[serde(borrow)]
    to: Option<EvidenceRefs<'a>>,
}

impl<'a> LineRefs<'a> {
    /// Of a line of any kind; `None`: it is none of a log.
    pub fn of(line: &'a [u8]) -> Option<Self> {
        let refs: Self = serde_json::from_slice(line).ok()?;
        checked_seq(refs.seq).ok().map(|_| refs)
    }

    /// The evidence that it names.
    pub fn blobs(&self) -> impl Iterator<Item = BlobName> + use<'a> {
        [self.from, self.robots, self.to].into_iter().flatten().flat_map(EvidenceRefs::blobs)
    }
}

/// Hands over each line of the file at `path` that can be read, with its hash.
pub(crate) fn each_line(
    path: &Path,
    is_over: &dyn Fn() -> bool,
    each: &mut dyn FnMut(LineRefs<'_>, &str),
) -> io::Result<()> {
    let mut lines = Lines::open(path)?;
    loop {
        if is_over() {
            return Err(over());
        }
        match lines.next()? {
            Found::Line(line) => {
                if let (Some(refs), Some((_, hash))) = (LineRefs::of(line), split(line)) {
                    each(refs, hash);
                }
            }
            Found::Rest(_) => {}
            Found::End => return Ok(()),
        }
    }
}

fn name_in_line(line: &str) -> Option<BlobName> {
    let (sha256, end) = line.split_once('.')?;
    let kind = [Kind::File, Kind::Capture].into_iter().find(|kind| extension(*kind) == end)?;
    Some((kind, sanitize::digest(sha256)?))
}

/// The extension of the stored file, without `.gz`.
const fn extension(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "txt",
        Kind::Capture => "json",
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// The error of work on a file that was ended because the writer has stopped.
pub(crate) fn over() -> io::Error {
    io::Error::other("the writer has stopped")
}
