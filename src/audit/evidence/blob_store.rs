//! The blob store: `evidence/ab/abcd….txt.gz` for a robots.txt, `….json.gz` for a capture,
//! `….settings.gz` for settings, `….receipt.gz` for what a publisher answered. Their names are the SHA-256 of their content, so `zcat FILE | sha256sum` checks one without us.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Blob, BlobName, Kind};
use crate::audit::record::chain::{Head, checked_seq, split};
use crate::audit::record::meta_record::EvidenceRefs;
use crate::audit::segment::{FoundLine, Lines, closed_name, named_seq};
use crate::audit::{EVIDENCE_BYTES_MAX, parse_time, print_time};
use crate::types::LogId;
use crate::types::sanitize::{self, hex};
use crate::types::timestamp::Timestamp;

/// Directories above an blob that are ours: of its first byte, of all evidence, of the log.
const LEVELS: usize = 3;

/// The directory of evidence, in that of a log.
#[derive(Clone, Debug)]
pub struct BlobStore {
    audit_dir: PathBuf,
}

/// The file under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The content; its digest is the name.
    Content(Vec<u8>),
    Missing,
    /// There is a file, and it is not what its name says: why.
    Damaged(String),
}

/// The name of an blob within the directory of a log, `sha256` in hexadecimal.
pub fn name(kind: Kind, sha256: &str) -> String {
    let directory = sha256.get(..2).unwrap_or("00");
    format!("evidence/{directory}/{sha256}.{}.gz", extension(kind))
}

impl BlobStore {
    /// The directory of the log.
    pub fn audit_dir(&self) -> &Path {
        &self.audit_dir
    }

    /// The evidence of the log in `audit_dir`. Nothing is made before the first blob.
    pub fn of(audit_dir: &Path) -> Self {
        Self { audit_dir: audit_dir.to_owned() }
    }

    /// Where an blob is, `sha256` in hexadecimal.
    pub fn path(&self, kind: Kind, sha256: &str) -> PathBuf {
        self.audit_dir.join(name(kind, sha256))
    }

    /// Keeps an blob, unless it is kept already. A file appears whole or not at all; that it has its
    /// name after a power cut, too, is the part of [`BlobStore::sync`].
    pub fn put(&self, blob: &Blob) -> io::Result<()> {
        let path = self.path(blob.kind, &hex(&blob.sha256));
        if path.exists() {
            return Ok(());
        }
        let unfinished = path.with_extension("tmp");
        // That of the log itself is never made here: it may have been moved away, and is to come back.
        for dir in path.ancestors().skip(1).take(LEVELS - 1).collect::<Vec<_>>().into_iter().rev() {
            match DirBuilder::new().mode(0o700).create(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        let written =
            write(&unfinished, &blob.content).and_then(|()| std::fs::rename(&unfinished, &path));
        if written.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        written
    }

    /// Brings the names of blobs to the disk itself: each directory once, from theirs up to that of
    /// the log.
    pub fn sync<'a>(&self, blobs: impl IntoIterator<Item = &'a Blob>) -> io::Result<()> {
        let paths: Vec<_> =
            blobs.into_iter().map(|blob| self.path(blob.kind, &hex(&blob.sha256))).collect();
        let levels = paths.iter().flat_map(|path| path.ancestors().skip(1).take(LEVELS));
        let dirs: BTreeSet<_> = levels.collect();
        // The innermost first: a name that is on the disk leads to something that is there.
        dirs.into_iter().rev().try_for_each(|dir| File::open(dir)?.sync_all())
    }

    /// What is kept under a name, `sha256` in hexadecimal.
    pub fn get(&self, kind: Kind, sha256: &str) -> io::Result<Found> {
        let file = match File::open(self.path(kind, sha256)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        let mut decoder = GzDecoder::new(BufReader::new(file)).take(EVIDENCE_BYTES_MAX + 1);
        if let Err(error) = decoder.read_to_end(&mut content) {
            return Ok(Found::Damaged(format!("cannot be decompressed: {error}")));
        }
        let is_more_behind = !decoder.into_inner().into_inner().fill_buf()?.is_empty();
        let found = hex(&Sha256::digest(&content));
        Ok(match found == sha256 {
            true if is_more_behind => {
                Found::Damaged("more bytes follow the end of its content".into())
            }
            true => Found::Content(content),
            false => Found::Damaged(format!("its content has the SHA-256 {found}")),
        })
    }
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    let mut encoder = GzEncoder::new(file, Compression::default());
    encoder.write_all(content)?;
    encoder.finish()?.sync_data()
}

// `denials-000000000001.evidence`: an index of the evidence that the lines of a closed file name,
// so that the file need not be read again. Its first line has time, number and hash of the file's
// last line. The writer's thread hands it over for files that it has written; otherwise the file
// is read.

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
    receipt: Option<&'a str>,
    /// The identity of the log, in a line that names it.
    #[serde(default)]
    pub log: Option<LogId>,
    #[serde(borrow)]
    robots: Option<EvidenceRefs<'a>>,
    /// Its number in the chain, from 1.
    pub seq: u64,
    settings: Option<&'a str>,
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
        let settings = self.settings.map(EvidenceRefs::settings);
        let receipt = self.receipt.map(EvidenceRefs::receipt);
        let all = [self.from, self.robots, self.to, settings, receipt];
        all.into_iter().flatten().flat_map(EvidenceRefs::blobs)
    }

    /// The settings that are in effect from it on, where it says which: their SHA-256.
    pub fn settings(&self) -> Option<[u8; 32]> {
        self.settings.and_then(sanitize::digest)
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
            FoundLine::Line(line) => {
                if let (Some(refs), Some((_, hash))) = (LineRefs::of(line), split(line)) {
                    each(refs, hash);
                }
            }
            FoundLine::Rest(_) => {}
            FoundLine::End => return Ok(()),
        }
    }
}

fn name_in_line(line: &str) -> Option<BlobName> {
    let (sha256, end) = line.split_once('.')?;
    let kind = Kind::ALL.into_iter().find(|kind| extension(*kind) == end)?;
    Some((kind, sanitize::digest(sha256)?))
}

/// The extension of the stored file, without `.gz`.
const fn extension(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "txt",
        Kind::Capture => "json",
        Kind::Settings => "settings",
        Kind::Receipt => "receipt",
    }
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// The error of work on a file that was ended because the writer has stopped.
pub(crate) fn over() -> io::Error {
    io::Error::other("the writer has stopped")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(content: &'static [u8]) -> Blob {
        Blob { sha256: Sha256::digest(content).into(), kind: Kind::File, content: content.into() }
    }

    #[test]
    fn an_exhibit_is_found_by_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let (blob_store, blob) = (BlobStore::of(dir.path()), blob(b"user-agent: *\n"));
        let name = hex(&blob.sha256);
        assert_eq!(blob_store.get(Kind::File, &name).unwrap(), Found::Missing);
        blob_store.put(&blob).unwrap();
        blob_store.put(&blob).unwrap();
        assert_eq!(
            blob_store.get(Kind::File, &name).unwrap(),
            Found::Content(blob.content.to_vec())
        );
        assert_eq!(blob_store.get(Kind::Capture, &name).unwrap(), Found::Missing);
    }

    #[test]
    fn the_directory_of_a_log_that_was_moved_away_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let moved = dir.path().join("audit");
        let error = BlobStore::of(&moved).put(&blob(b"user-agent: *\n")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!moved.exists());
    }

    #[test]
    fn a_changed_exhibit_is_told_from_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let blob_store = BlobStore::of(dir.path());
        let (one, other) = (blob(b"one"), blob(b"other"));
        blob_store.put(&one).unwrap();
        blob_store.put(&other).unwrap();
        let name = hex(&one.sha256);
        std::fs::copy(
            blob_store.path(Kind::File, &hex(&other.sha256)),
            blob_store.path(Kind::File, &name),
        )
        .unwrap();
        assert!(
            matches!(blob_store.get(Kind::File, &name).unwrap(), Found::Damaged(why) if why.contains("SHA-256"))
        );
        std::fs::write(blob_store.path(Kind::File, &name), b"not gzip").unwrap();
        assert!(
            matches!(blob_store.get(Kind::File, &name).unwrap(), Found::Damaged(why) if why.contains("decompressed"))
        );
    }

    #[test]
    fn nothing_can_be_hidden_behind_an_exhibit() {
        let dir = tempfile::tempdir().unwrap();
        let (blob_store, blob) = (BlobStore::of(dir.path()), blob(b"user-agent: *\n"));
        blob_store.put(&blob).unwrap();
        let name = hex(&blob.sha256);
        let path = blob_store.path(Kind::File, &name);
        let kept = std::fs::read(&path).unwrap();
        // Whatever follows: one byte, what ends a block of a tape, another member.
        for more in [&b"\n"[..], &[0; 512], &kept] {
            std::fs::write(&path, [&kept, more].concat()).unwrap();
            let found = blob_store.get(Kind::File, &name).unwrap();
            assert!(
                matches!(&found, Found::Damaged(why) if why.contains("more bytes")),
                "{found:?}"
            );
        }
        std::fs::write(&path, &kept).unwrap();
        assert_eq!(
            blob_store.get(Kind::File, &name).unwrap(),
            Found::Content(blob.content.to_vec())
        );
    }

    #[test]
    fn names_are_brought_to_the_disk_as_far_as_they_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let (blob_store, one, other) = (BlobStore::of(dir.path()), blob(b"one"), blob(b"other"));
        blob_store.sync([]).unwrap();
        blob_store.put(&one).unwrap();
        blob_store.sync([&one]).unwrap();
        assert_eq!(blob_store.sync([&one, &other]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
