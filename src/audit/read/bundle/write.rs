//! Makes a bundle of a log.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::{
    Budget, END, EntryKind, FORMAT, First, MANIFEST, Manifest, VERSION, evidence_name, header,
    padding,
};
use crate::audit::evidence::LineRefs;
use crate::audit::read::{CompiledFilter, Extent, Filter, Log, Scan, ScanError, ScanItem};
use crate::audit::{
    BUNDLE_ENTRIES_MAX, BUNDLE_SEGMENT_BYTES, EVIDENCE_BYTES_MAX, Head, LineKind, checked_hash,
    read_head, segment, split,
};
use crate::runtime::files;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Read(#[from] ScanError),
    #[error("the bundle cannot be written")]
    Output(#[from] io::Error),
    #[error("the part is too large for one bundle: choose a shorter time (--since, --until)")]
    TooLarge,
    #[error("the log has changed while it was read; its beginning may have been removed")]
    Changed,
}

/// Damaged and missing parts of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Lines that were changed or are no lines of a log. Incomplete lines are left out.
    pub damaged: u64,
    /// Evidence that cannot be read, and why.
    pub evidence: Vec<String>,
}

/// The part of `log` from the first to the last line that `filter` admits; none where it admits
/// none. Notices are admitted by their time and node, where the filter asks for nothing else, or by
/// their word.
///
/// # Errors
///
/// A file of the log cannot be read.
pub fn find(log: &Log, filter: &Filter) -> Result<Option<Manifest>, ScanError> {
    let mut scan = Scan::new(log.clone())?.between(filter.since, filter.until);
    let compiled = CompiledFilter::new(filter.clone());
    let is_meant = |line: &[u8]| match LineKind::of(line) {
        Some(LineKind::Record(_)) => compiled.admits(line),
        Some(LineKind::Notice(_)) => compiled.admits_notice(line, filter.events.is_empty()),
        Some(LineKind::Unknown) | None => false,
    };
    let mut ends: Option<(First, Head)> = None;
    while let Some(piece) = scan.next()? {
        let ScanItem::Lines(block) = piece else { continue };
        for line in block.lines().map(|line| line.bytes).filter(|line| is_meant(line)) {
            let Some(place) = First::of(line) else { continue };
            let last = Head { hash: place.hash.clone(), seq: place.seq };
            let first = ends.take().map_or(place, |(first, _)| first);
            ends = Some((first, last));
        }
    }
    let noted_head = read_head(&log.dir()).ok().flatten().map(|(head, _)| head);
    Ok(ends.map(|(first, last)| Manifest {
        first,
        format: FORMAT.into(),
        last,
        noted_head,
        version: VERSION,
    }))
}

/// Writes the bundle of a part of `log` that [`find`] has found.
///
/// # Errors
///
/// See [`WriteError`]. The file written by then is no bundle.
pub fn write(
    log: &Log,
    manifest: &Manifest,
    output: impl Write,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Lacks, WriteError> {
    let mut writer = Writer {
        output,
        budget: Budget::default(),
        lacks: Lacks::default(),
        named: BTreeSet::new(),
    };
    let mut text = serde_json::to_vec(manifest).map_err(io::Error::from)?;
    text.push(b'\n');
    writer.entry(MANIFEST, &text)?;
    writer.lines(log, manifest, progress)?;
    writer.evidence(log)?;
    writer.output.write_all(&END)?;
    writer.output.flush()?;
    Ok(writer.lacks)
}

struct Writer<W> {
    output: W,
    budget: Budget,
    lacks: Lacks,
    /// Names of the entries of evidence that the lines name.
    named: BTreeSet<String>,
}

/// Lines that become one entry.
struct Segment {
    first_seq: u64,
    lines: Vec<u8>,
}

impl<W: Write> Writer<W> {
    fn entry(&mut self, name: &str, content: &[u8]) -> Result<(), WriteError> {
        let bytes = content.len() as u64;
        if !EntryKind::named(name).is_some_and(|entry| self.budget.admits(entry, bytes)) {
            return Err(WriteError::TooLarge);
        }
        self.output.write_all(header(name, bytes)?.as_bytes())?;
        self.output.write_all(content)?;
        Ok(self.output.write_all(&END[..padding(bytes)])?)
    }

    /// From the first line to the last, with all between.
    fn lines(
        &mut self,
        log: &Log,
        Manifest { first, last, .. }: &Manifest,
        progress: &mut dyn FnMut(Extent, u64),
    ) -> Result<(), WriteError> {
        let mut scan = Scan::new(log.clone())?;
        let mut segment = Segment { first_seq: first.seq, lines: Vec::new() };
        let (mut is_begun, mut seq, mut count) = (false, first.seq, 0);
        while let Some(piece) = scan.next()? {
            match piece {
                ScanItem::Rest(_) => self.lacks.damaged += u64::from(is_begun),
                ScanItem::Lines(block) => {
                    for line in block.lines().map(|line| line.bytes) {
                        is_begun = is_begun || is_it(line, &first.hash);
                        if !is_begun {
                            continue;
                        }
                        if segment.lines.len() >= BUNDLE_SEGMENT_BYTES {
                            self.segment(&mut segment, seq)?;
                        }
                        self.line(line, &mut segment.lines)?;
                        (seq, count) = (seq + 1, count + 1);
                        if is_it(line, &last.hash) {
                            return self.segment(&mut segment, seq);
                        }
                    }
                }
            }
            progress(scan.extent(), count);
        }
        Err(WriteError::Changed)
    }

    fn line(&mut self, line: &[u8], lines: &mut Vec<u8>) -> Result<(), WriteError> {
        lines.extend_from_slice(line);
        lines.push(b'\n');
        self.lacks.damaged += u64::from(checked_hash(line).is_err());
        let refs = LineRefs::of(line);
        self.named.extend(refs.iter().flat_map(LineRefs::blobs).map(|blob| evidence_name(&blob)));
        if self.named.len() > BUNDLE_ENTRIES_MAX { Err(WriteError::TooLarge) } else { Ok(()) }
    }

    /// Writes the lines so far; those that follow begin with the number `next`.
    fn segment(&mut self, segment: &mut Segment, next: u64) -> Result<(), WriteError> {
        self.entry(&segment::closed_name(segment.first_seq), &segment.lines)?;
        segment.first_seq = next;
        segment.lines.clear();
        Ok(())
    }

    /// As it is stored beside the log: what was changed is there so, too.
    fn evidence(&mut self, log: &Log) -> Result<(), WriteError> {
        let dir = log.dir();
        for name in std::mem::take(&mut self.named) {
            match files::read(&dir.join(&name), EVIDENCE_BYTES_MAX as usize) {
                Ok(content) => self.entry(&name, &content)?,
                Err(error) => self.lacks.evidence.push(format!("{name}: {error}")),
            }
        }
        Ok(())
    }
}

fn is_it(line: &[u8], hash: &str) -> bool {
    split(line).is_some_and(|(_, written)| written == hash)
}
