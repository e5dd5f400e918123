//! Exports the evidence that records name as a web archive: each capture once, with its file. Blobs
//! that are missing or damaged are reported, and left out.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;

use serde::Serialize;

use super::page::{PageRequest, page};
use super::verify::evidence::{no_name, read, read_capture};
use super::verify::{Fault, Faults, Problem};
use super::{Line, Log, Scan, ScanError, ScanItem};
use crate::audit::evidence::warc::{Info, Packing, Writer};
use crate::audit::evidence::{BlobStore, Kind};
use crate::audit::summary::Needs;
use crate::audit::{ARCHIVE_CAPTURES_MAX, AnyLine, Head, Record, checked_hash, split};
use crate::types::sanitize::{digest, sha256_hex};

/// An archive that is being written.
#[derive(Debug)]
pub struct Archive<W> {
    writer: Writer<W>,
    /// Of each log.
    shelves: Vec<BlobStore>,
    seen: HashSet<[u8; 32]>,
    findings: Findings,
}

/// The contents of an archive, and what is missing from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Blobs that are missing or damaged.
    pub faults: Faults,
    /// There were so many captures that some may be in it more than once.
    pub may_repeat: bool,
}

impl<W: Write> Archive<W> {
    /// Of the logs in these directories.
    pub fn new(
        audit_dirs: &[PathBuf],
        output: W,
        packing: Packing,
        info: &Info,
    ) -> io::Result<Self> {
        let writer = Writer::new(output, packing, info)?;
        let shelves = audit_dirs.iter().map(|dir| BlobStore::of(dir)).collect();
        Ok(Self { writer, shelves, seen: HashSet::new(), findings: Findings::default() })
    }

    /// Adds the captures that `record` names and that are not in the archive yet; logs are counted
    /// from 0. Errors are those of the output.
    pub fn add(&mut self, log: usize, record: &Record) -> io::Result<()> {
        let Some(robots) = &record.robots else { return Ok(()) };
        let mut captures = robots.capture.iter().chain(&robots.failed_capture);
        captures.try_for_each(|name| match digest(name) {
            Some(digest) if self.seen.contains(&digest) => Ok(()),
            Some(digest) => {
                self.remember(digest);
                self.add_capture(log, record, name)
            }
            None => {
                self.fault(record, no_name(name));
                Ok(())
            }
        })
    }

    /// All of it is written.
    pub fn finish(self) -> io::Result<Findings> {
        self.writer.finish()?;
        Ok(self.findings)
    }

    fn remember(&mut self, digest: [u8; 32]) {
        if self.seen.len() < ARCHIVE_CAPTURES_MAX {
            self.seen.insert(digest);
        } else {
            self.findings.may_repeat = true;
        }
    }

    fn add_capture(&mut self, log: usize, record: &Record, name: &str) -> io::Result<()> {
        let Some(blob_store) = self.shelves.get(log) else { return Ok(()) };
        let capture = match read_capture(blob_store, name) {
            Ok(capture) => capture,
            Err(problem) => {
                self.fault(record, problem);
                return Ok(());
            }
        };
        let file = capture.body.as_ref().map(|body| read(blob_store, Kind::File, &body.sha256));
        let file = file.transpose().unwrap_or_else(|problem| {
            self.fault(record, problem);
            None
        });
        self.writer.write_capture(&capture, file.as_deref())
    }

    fn fault(&mut self, record: &Record, problem: Problem) {
        let (seq, id) = (Some(record.seq), Some(record.id.clone()));
        self.findings.faults.push(Fault { at: None, seq, id, problem });
    }
}

/// How a line stands in its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ChainCheck {
    /// Its hash is that of its text.
    pub hash_holds: bool,
    pub before: Link,
    pub after: Link,
}

/// How a line and one beside it fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// The later one names the hash of the earlier one.
    Fits,
    /// The later one names another hash: one of the two was replaced, or a line between them
    /// removed.
    Differs,
    /// There is no line on that side; before line 1 there is none to be.
    Absent,
    /// In a dossier: the line on that side is another one, and those between are not there.
    Apart,
}

impl ChainCheck {
    /// How `line`, without its end, stands where it is first found in `log`; none where it is not.
    pub fn of(line: &[u8], log: Log) -> Result<Option<Self>, ScanError> {
        let in_place = seq(line).and_then(|seq| LineInPlace::find(&log, seq).ok().flatten());
        if let Some(found) = in_place.filter(|found| found.line == line) {
            return Ok(Some(found.check));
        }
        // Another line has its number, or lines are out of order.
        let has_gaps = log.has_gaps();
        Ok(beside(line, log)?.map(|(before, after)| {
            Self::between(before.as_deref(), line, after.as_deref(), has_gaps)
        }))
    }

    /// How `line` stands between those before and after it; `has_gaps`: some may be missing, which is no damage.
    pub fn between(
        before: Option<&[u8]>,
        line: &[u8],
        after: Option<&[u8]>,
        has_gaps: bool,
    ) -> Self {
        let link = |earlier: &[u8], later: &[u8]| match seq(earlier).zip(seq(later)) {
            Some((earlier, later)) if has_gaps && later > earlier + 1 => Link::Apart,
            _ => fits(earlier, later),
        };
        Self {
            hash_holds: checked_hash(line).is_ok(),
            before: before.map_or_else(|| begins(line), |before| link(before, line)),
            after: after.map_or(Link::Absent, |after| link(line, after)),
        }
    }

    /// Whether nothing speaks against it.
    pub fn holds(&self) -> bool {
        self.hash_holds && self.before != Link::Differs && self.after != Link::Differs
    }
}

/// One line, as it stands in its log.
#[derive(Clone, Debug)]
pub struct LineInPlace {
    pub line: Vec<u8>,
    pub check: ChainCheck,
    /// The number of the line before it.
    pub older: Option<u64>,
    /// The same of the line after it.
    pub newer: Option<u64>,
}

impl LineInPlace {
    /// The line of that number, with its neighbours.
    ///
    /// # Errors
    ///
    /// As those of [`page`].
    pub fn find(log: &Log, seq: u64) -> Result<Option<Self>, ScanError> {
        let request = PageRequest {
            before: Some(seq.saturating_add(2)),
            after: 0,
            limit: 3,
            bytes_max: u64::MAX,
            needs: &Needs::ANY,
            summarised_only: false,
        };
        let found = page(log.clone(), request, |_| true)?;
        let Some(at) = found.lines.iter().position(|(found, _)| *found == seq) else {
            return Ok(None);
        };
        let mut newer = at.checked_sub(1).and_then(|at| found.lines.get(at)).cloned();
        if newer.is_none() {
            // Where lines are not there, the next one has any number: back from the end of the log to this line.
            let request = PageRequest { before: None, limit: 1, ..request };
            page(log.clone(), request, |line| {
                let number = AnyLine::parse(line).map_or(0, |any| any.seq);
                if number > seq && newer.as_ref().is_none_or(|(nearest, _)| number < *nearest) {
                    newer = Some((number, line.to_vec()));
                }
                number <= seq
            })?;
        }
        let newer = newer.as_ref();
        let older = found.lines.get(at + 1);
        let line = found.lines[at].1.clone();
        let [before, after] = [older, newer].map(|it| it.map(|(_, line)| line.as_slice()));
        Ok(Some(Self {
            check: ChainCheck::between(before, &line, after, log.has_gaps()),
            older: older.map(|(seq, _)| *seq),
            newer: newer.map(|(seq, _)| *seq),
            line,
        }))
    }
}

type Lines = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The lines before and after it.
fn beside(wanted: &[u8], log: Log) -> Result<Option<Lines>, ScanError> {
    let mut scan = Scan::new(log)?;
    let mut before: Option<Vec<u8>> = None;
    let mut is_found = false;
    loop {
        let block = match scan.next() {
            Ok(Some(ScanItem::Lines(block))) => block,
            Ok(None) => return Ok(is_found.then_some((before, None))),
            Ok(Some(ScanItem::Rest(_))) | Err(_) if is_found => return Ok(Some((before, None))),
            // An unreadable part is not the line before the next one.
            Ok(Some(ScanItem::Rest(_))) | Err(_) => {
                before = None;
                continue;
            }
        };
        let mut last: Option<&[u8]> = None;
        for Line { bytes, .. } in block.lines() {
            if is_found {
                return Ok(Some((before, Some(bytes.to_vec()))));
            }
            is_found = bytes == wanted;
            if !is_found {
                last = Some(bytes);
            } else if let Some(last) = last {
                before = Some(last.to_vec());
            }
        }
        if let Some(last) = last.filter(|_| !is_found) {
            let before = before.get_or_insert_default();
            before.clear();
            before.extend_from_slice(last);
        }
    }
}

fn seq(line: &[u8]) -> Option<u64> {
    AnyLine::parse(line).ok().map(|any| any.seq)
}

fn fits(earlier: &[u8], later: &[u8]) -> Link {
    let Ok(AnyLine { prev, .. }) = serde_json::from_slice(later) else { return Link::Differs };
    let Some((canonical, written)) = split(earlier) else { return Link::Differs };
    // Of an earlier line that was changed, its text or its hash may be the one that was chained to.
    let is_fit = prev == written || prev == sha256_hex(&[canonical, b"}"].concat());
    if is_fit { Link::Fits } else { Link::Differs }
}

/// Of the first line that is there.
fn begins(line: &[u8]) -> Link {
    match serde_json::from_slice(line) {
        Ok(AnyLine { prev, seq: 1, .. }) if prev != Head::genesis().hash => Link::Differs,
        Ok(_) => Link::Absent,
        Err(_) => Link::Differs,
    }
}
