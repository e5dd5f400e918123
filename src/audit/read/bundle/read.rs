//! Unpacks a bundle into a directory, which is then a log with its evidence. Anything that
//! [`super::write`] does not make is refused: other names, links, directories, sizes beyond the
//! bounds, bytes between or behind entries.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use tar::Header;

use super::{
    BLOCK, Budget, END, EntryKind, FORMAT, First, Manifest, VERSION, evidence_name, header, padding,
};
use crate::audit::evidence::LineRefs;
use crate::audit::read::verify::{Fault, Findings, GivenHead, NotedHead, Problem, verify_part};
use crate::audit::read::{Extent, Log, Scan, ScanError, ScanItem};
use crate::audit::{AnyLine, Head, split};
use crate::runtime::files;
use crate::types::sanitize::text;

/// Bytes of a name that are shown.
const SHOWN: usize = 200;
/// Where the header of a tar file says that it is one (POSIX.1-1988, ustar).
const MAGIC_AT: u64 = 257;

/// Why a bundle cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the bundle does not hold: {0}")]
    NotAsWritten(String),
    #[error("the bundle is of version {0}, which a later version of courtesy reads")]
    Newer(u64),
}

/// The contents of the directory.
#[derive(Debug)]
pub struct Unpacked {
    pub manifest: Manifest,
    /// Names of the evidence, as entries.
    pub evidence: BTreeSet<String>,
}

/// Whether a file is a tar file, or is called one.
pub fn is_bundle(path: &Path) -> bool {
    let mut magic = [0; 5];
    let read = files::open(path).and_then(|file| file.read_exact_at(&mut magic, MAGIC_AT));
    path.extension().is_some_and(|extension| extension == "tar")
        || (read.is_ok() && magic == *b"ustar")
}

/// Unpacks the bundle in the file `path` into `dir`, which is empty and belongs to this user alone.
///
/// # Errors
///
/// See [`ReadError`].
pub fn unpack(path: &Path, dir: &Path) -> Result<Unpacked, ReadError> {
    let mut input = BufReader::with_capacity(64 << 10, files::open(path)?);
    let (mut budget, mut before) = (Budget::default(), String::new());
    let (mut manifest, mut evidence) = (None, BTreeSet::new());
    while let Some(header) = next(&mut input, &before)? {
        let (name, entry, bytes) = admitted(&header, &mut budget)?;
        if name <= before {
            return refused(format!("{name} stands behind {before}, or is there twice"));
        }
        match entry {
            _ if manifest.is_none() && entry != EntryKind::Manifest => {
                return refused("it does not begin with bundle.json".into());
            }
            EntryKind::Evidence(_) => drop(evidence.insert(name.clone())),
            EntryKind::Manifest | EntryKind::Segment => {}
        }
        store(&mut input, &dir.join(&name), bytes, &name)?;
        let mut zeros = vec![0; padding(bytes)];
        read_exact(&mut input, &mut zeros, &name)?;
        if zeros.iter().any(|byte| *byte != 0) {
            return refused(format!("there are bytes behind the end of {name}"));
        }
        if entry == EntryKind::Manifest {
            manifest = Some(parse(&dir.join(&name))?);
        }
        before = name;
    }
    match manifest {
        Some(manifest) => Ok(Unpacked { manifest, evidence }),
        None => refused("it does not begin with bundle.json".into()),
    }
}

fn refused<T>(why: String) -> Result<T, ReadError> {
    Err(ReadError::NotAsWritten(why))
}

/// The next header; none at the end, behind which there is nothing.
fn next(input: &mut impl Read, before: &str) -> Result<Option<Header>, ReadError> {
    let mut block = [0; BLOCK];
    read_exact(input, &mut block, before)?;
    if block != END[..BLOCK] {
        return Ok(Some(Header::from_byte_slice(&block).clone()));
    }
    read_exact(input, &mut block, before)?;
    if block == END[..BLOCK] && input.read(&mut [0])? == 0 {
        Ok(None)
    } else {
        refused("there are bytes behind its end".into())
    }
}

fn read_exact(input: &mut impl Read, bytes: &mut [u8], name: &str) -> Result<(), ReadError> {
    input.read_exact(bytes).or_else(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => cut_off(name),
        _ => Err(error.into()),
    })
}

fn cut_off<T>(name: &str) -> Result<T, ReadError> {
    let place = if name.is_empty() { "at its beginning" } else { &format!("in or behind {name}") };
    refused(format!("it is cut off {place}"))
}

/// The entry that a header announces, where a bundle may have it.
fn admitted(found: &Header, budget: &mut Budget) -> Result<(String, EntryKind, u64), ReadError> {
    let shown = text(&found.path_bytes(), SHOWN);
    if found.entry_type() != tar::EntryType::Regular {
        return refused(format!("{shown} is a link, a directory or a device, and no regular file"));
    }
    let path = found.path_bytes();
    let name = str::from_utf8(&path)
        .ok()
        .and_then(|name| Some((name.to_owned(), EntryKind::named(name)?)));
    let Some((name, entry)) = name else {
        return refused(format!("{shown} is no name of a file in a bundle"));
    };
    let Ok(bytes) = found.entry_size() else {
        return refused(format!("the size of {shown} cannot be read"));
    };
    if !budget.admits(entry, bytes) {
        return refused(format!("{shown}, of {bytes} bytes, is more than a bundle may have"));
    }
    if header(&name, bytes)?.as_bytes() == found.as_bytes() {
        Ok((name, entry, bytes))
    } else {
        refused(format!("the header of {shown} is not the one that was written"))
    }
}

/// Copies the content of an entry to a file. Its name has been checked, and no name is there twice.
fn store(input: &mut impl Read, path: &Path, bytes: u64, name: &str) -> Result<(), ReadError> {
    if let Some(dir) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if io::copy(&mut input.take(bytes), &mut file)? == bytes { Ok(()) } else { cut_off(name) }
}

fn parse(path: &Path) -> Result<Manifest, ReadError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format: String,
        version: u64,
    }
    let content = std::fs::read(path)?;
    let version: Option<Version> = serde_json::from_slice(&content).ok();
    match version {
        Some(it) if it.format == FORMAT && it.version > VERSION => {
            return Err(ReadError::Newer(it.version));
        }
        _ => {}
    }
    let manifest: Result<Manifest, _> = serde_json::from_slice(&content);
    match manifest {
        Ok(manifest)
            if manifest.format == FORMAT
                && manifest.version == VERSION
                && manifest.has_digests() =>
        {
            Ok(manifest)
        }
        _ => refused("bundle.json does not say what is in it".into()),
    }
}

// Verifies a bundle: its lines as those of any log, their first and last against `bundle.json`,
// and that every blob is named by a line.

/// Verifies the bundle that was unpacked into `dir`. Heads of lines before or behind the part are
/// not held against it.
///
/// # Errors
///
/// The files in `dir` cannot be read.
pub fn verify_bundle(
    dir: &Path,
    Unpacked { manifest, evidence }: Unpacked,
    heads: &[GivenHead],
    with_evidence: bool,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Findings, ScanError> {
    let log = Log::Dir(dir.to_owned());
    let mut findings = verify_part(&log, heads, with_evidence, progress)?;
    // A bundle has no head.json; bundle.json has its content.
    findings.noted = NotedHead::NotRead;
    let mut ends = Ends { first: None, last: None, noted: None, unnamed: evidence };
    let mut scan = Scan::new(log)?;
    // An unreadable file is a fault already.
    while let Ok(Some(piece)) = scan.next() {
        let ScanItem::Lines(block) = piece else { continue };
        block.lines().for_each(|line| ends.line(line.bytes, &manifest));
    }
    for why in ends.problems(&manifest) {
        let problem = Problem::Bundle(why);
        findings.faults.push(Fault { at: None, seq: None, id: None, problem });
    }
    Ok(findings)
}

/// What the lines are, for `bundle.json` to be compared with.
struct Ends {
    first: Option<First>,
    last: Option<Head>,
    /// The line of the number that the noted head has.
    noted: Option<Head>,
    /// Evidence that no line has named so far.
    unnamed: BTreeSet<String>,
}

impl Ends {
    fn line(&mut self, line: &[u8], manifest: &Manifest) {
        let (Ok(any), Some((_, hash))) = (AnyLine::parse(line), split(line)) else { return };
        for blob in LineRefs::of(line).iter().flat_map(LineRefs::blobs) {
            self.unnamed.remove(&evidence_name(&blob));
        }
        let head = Head { hash: hash.to_owned(), seq: any.seq };
        if manifest.noted_head.as_ref().is_some_and(|noted| noted.seq == head.seq) {
            self.noted = Some(head.clone());
        }
        self.first = self.first.take().or_else(|| First::of(line));
        self.last = Some(head);
    }

    fn problems(self, manifest: &Manifest) -> Vec<String> {
        let mut problems = Vec::new();
        if self.first.as_ref() != Some(&manifest.first) {
            let seq = manifest.first.seq;
            problems.push(format!(
                "bundle.json says that line {seq} is the first, and it is not as it says"
            ));
        }
        if self.last.as_ref() != Some(&manifest.last) {
            let seq = manifest.last.seq;
            problems.push(format!(
                "bundle.json says that line {seq} is the last, and it is not as it says"
            ));
        }
        if self.noted.is_some() && self.noted != manifest.noted_head {
            problems.push(
                "the head noted in bundle.json is not that of the line with its number".into(),
            );
        }
        problems
            .extend(self.unnamed.into_iter().map(|name| format!("added: no line names {name}")));
        problems
    }
}
