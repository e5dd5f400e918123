//! Exports the evidence that records name as a web archive: each capture once, with its file. Blobs
//! that are missing or damaged are reported, and left out.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::PathBuf;

use super::verify::evidence::{no_name, read, read_capture};
use super::verify::{Fault, Faults, Problem};
use crate::audit::Record;
use crate::audit::evidence::warc::{Info, Packing, Writer};
use crate::audit::evidence::{BlobStore, Kind};
use crate::audit::limits::ARCHIVE_CAPTURES_MAX;
use crate::types::sanitize::digest;

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
