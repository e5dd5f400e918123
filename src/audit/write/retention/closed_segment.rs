//! The closed files of a log that are ours, and how one is put away: compressed, with its inventory and its summary
//! beside it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::audit::evidence::EvidenceIndex;
use crate::audit::segment::{FILE_NAME, closed_name, is_segment, ours, write_whole};
use crate::audit::summary::{MEMBER_BYTES, compress};

/// A closed segment by its first line's number, as its files are named.
#[derive(Clone, Debug)]
pub(super) struct Closed {
    dir: PathBuf,
    /// The number of its first line in the chain.
    pub first_seq: u64,
    has: Files,
}

/// Which of its files are there.
#[derive(Clone, Copy, Debug, Default)]
struct Files {
    plain: bool,
    packed: bool,
    evidence_index: bool,
    /// The inventory of lines that we have removed.
    pruned: bool,
    summary: bool,
}

/// What the directory of a log has besides the file that is written.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// In the order of the chain.
    pub closed: Vec<Closed>,
    /// Segments that another program has rotated away, as earlier versions let it.
    pub others: Vec<PathBuf>,
    /// Files of ours that were not finished, and summaries without their segments.
    unfinished: Vec<PathBuf>,
}

impl Survey {
    /// The closed segments in `dir`, the oldest first.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let mut survey = Self::default();
        let mut closed: BTreeMap<u64, Files> = BTreeMap::new();
        for entry in fs::read_dir(dir).map_err(at_path(dir))? {
            let entry = entry.map_err(at_path(dir))?;
            let path = entry.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            match ours(name) {
                Some((first_seq, ".jsonl")) => closed.entry(first_seq).or_default().plain = true,
                Some((first_seq, ".jsonl.gz")) => {
                    closed.entry(first_seq).or_default().packed = true
                }
                Some((first_seq, ".evidence")) => {
                    closed.entry(first_seq).or_default().evidence_index = true
                }
                Some((first_seq, ".pruned")) => closed.entry(first_seq).or_default().pruned = true,
                Some((first_seq, ".summary")) => {
                    closed.entry(first_seq).or_default().summary = true
                }
                Some((_, ".jsonl.gz.tmp" | ".evidence.tmp" | ".summary.tmp")) => {
                    survey.unfinished.push(path)
                }
                _ if is_segment(&path) && name != FILE_NAME => survey.others.push(path),
                _ => {}
            }
        }
        let closed = closed.into_iter();
        survey.closed =
            closed.map(|(first_seq, has)| Closed { dir: dir.to_owned(), first_seq, has }).collect();
        // Of lines that another program has taken away.
        let left = survey.closed.iter().filter(|closed| closed.has.summary && !closed.is_there());
        survey.unfinished.extend(left.map(|closed| closed.file(".summary")));
        Ok(survey)
    }

    /// Removes what an interrupted compression has left.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        self.unfinished.iter().map(|path| remove(path)).fold(Ok(()), io::Result::and)
    }
}

impl Closed {
    /// Whether its lines are there, and not only its inventory.
    pub const fn is_there(&self) -> bool {
        self.has.plain || self.has.packed
    }

    /// Whether retention has removed its lines, and its evidence is still to be removed. Lines that
    /// another program has taken away may be kept elsewhere, and their evidence stays.
    pub const fn is_pruned(&self) -> bool {
        self.has.pruned && !self.is_there()
    }

    fn file(&self, suffix: &str) -> PathBuf {
        let mut name = closed_name(self.first_seq);
        name.truncate(name.len() - ".jsonl".len());
        self.dir.join(name + suffix)
    }

    /// The file with its lines.
    fn lines(&self) -> PathBuf {
        self.file(if self.has.packed { ".jsonl.gz" } else { ".jsonl" })
    }

    /// What its lines take on the disk, with their summary.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(bytes(&self.lines())? + bytes(&self.file(".summary"))?)
    }

    /// Compresses it and writes its evidence index, unless that is done. `known` is the index from
    /// the writer's thread.
    pub fn put_away(
        &self,
        known: Option<&EvidenceIndex>,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let (plain, packed) = (self.file(".jsonl"), self.file(".jsonl.gz"));
        // It was about to be removed, and was not.
        self.forget()?;
        // An index that was there before the lines were compressed may be of another file of that
        // name, which was removed with the rest of its log.
        if !self.has.evidence_index || !self.has.packed {
            match known {
                Some(evidence_index) => self.write_inventory(evidence_index)?,
                None => self.take_inventory(is_over).map(drop)?,
            }
        }
        match (self.has.plain, self.has.packed) {
            (true, false) => {
                compress(&plain, &packed, MEMBER_BYTES, is_over).map_err(at_path(&plain))?
            }
            (true, true) => same_length(&plain, &packed)?,
            _ => return Ok(()),
        }
        remove(&plain)
    }

    /// Its evidence index; rebuilt if that is missing or damaged.
    pub fn evidence_index(&self, is_over: &dyn Fn() -> bool) -> io::Result<EvidenceIndex> {
        let path = self.file(".evidence");
        match EvidenceIndex::read(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => {
                self.take_inventory(is_over)
            }
            read => read.map_err(at_path(&path)),
        }
    }

    /// Its evidence index when its lines were removed.
    pub fn pruned(&self) -> io::Result<EvidenceIndex> {
        let path = self.file(".pruned");
        EvidenceIndex::read(&path).map_err(at_path(&path))
    }

    fn take_inventory(&self, is_over: &dyn Fn() -> bool) -> io::Result<EvidenceIndex> {
        let lines = self.lines();
        let evidence_index = EvidenceIndex::take(&lines, is_over).map_err(at_path(&lines))?;
        self.write_inventory(&evidence_index).map(|()| evidence_index)
    }

    fn write_inventory(&self, evidence_index: &EvidenceIndex) -> io::Result<()> {
        let path = self.file(".evidence");
        write_whole(&path, |mut file| file.write_all(evidence_index.to_string().as_bytes()))
            .map_err(at_path(&path))
    }

    /// Removes its lines; its index stays until the evidence is removed, too.
    pub fn prune(&self) -> io::Result<()> {
        let evidence_index = self.file(".evidence");
        fs::rename(&evidence_index, self.file(".pruned")).map_err(at_path(&evidence_index))?;
        remove(&self.file(".summary"))?;
        remove(&self.file(".jsonl"))?;
        remove(&self.file(".jsonl.gz"))
    }

    /// Nothing of it is left to do.
    pub fn forget(&self) -> io::Result<()> {
        remove(&self.file(".pruned"))
    }
}

/// As after a crash between two steps: the compressed file got its name when it was whole, so it
/// replaces the plain one. A look costs little, and the plain one would be gone for good.
fn same_length(plain: &Path, packed: &Path) -> io::Result<()> {
    let expected = fs::metadata(plain).map_err(at_path(plain))?.len();
    let packed_file = BufReader::new(File::open(packed).map_err(at_path(packed))?);
    let found = io::copy(&mut MultiGzDecoder::new(packed_file), &mut io::sink())
        .map_err(at_path(packed))?;
    if found == expected {
        return Ok(());
    }
    let problem =
        format!("{} is not the same as {}; move one away", packed.display(), plain.display());
    Err(io::Error::new(ErrorKind::InvalidData, problem))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at_path(path)(error)),
        _ => Ok(()),
    }
}

/// `error`, with the file it is about.
pub(super) fn at_path(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The size of one file; 0 if it is gone.
pub(super) fn bytes(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(at_path(path)(error)),
    }
}
