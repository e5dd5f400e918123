//! The evidence that records name, as a web archive: each capture once, in the order of the log.

use std::collections::HashSet;
use std::io::{self, Write};

use super::form::record;
use super::search::Taken;
use crate::clock::{Clock, SystemClock};
use crate::evidence::{CaptureRecord, Found, Kind, Shelf, warc};
use crate::text;

/// Remembers 32 octets of each capture it has written.
pub struct Archive<W: Write> {
    output: warc::Writer<W>,
    shelf: Shelf,
    done: HashSet<[u8; 32]>,
    /// Some evidence is missing or damaged, and has been told of.
    pub is_partial: bool,
}

impl<W: Write> Archive<W> {
    /// Of the evidence on `shelf`.
    pub fn new(output: W, packing: warc::Packing, shelf: Shelf) -> io::Result<Self> {
        let info = warc::Info {
            made_at: SystemClock.wall(),
            description: "How each robots.txt came that denial records rest on".into(),
        };
        let output = warc::Writer::new(output, packing, &info)?;
        Ok(Self { output, shelf, done: HashSet::new(), is_partial: false })
    }

    /// Writes what a line names and no line before it did.
    pub fn add(&mut self, line: &[u8]) -> io::Result<Taken> {
        let Some((record, _)) = record(line) else { return Ok(Taken::Damaged) };
        let Some(robots) = record.robots else { return Ok(Taken::Good) };
        for sha256 in [robots.capture, robots.failed_capture].into_iter().flatten() {
            if text::digest(&sha256).is_none_or(|digest| self.done.insert(digest)) {
                self.write(&sha256)?;
            }
        }
        Ok(Taken::Good)
    }

    pub fn finish(self) -> io::Result<()> {
        self.output.finish()?.flush()
    }

    fn write(&mut self, sha256: &str) -> io::Result<()> {
        let Some(json) = self.get(Kind::Capture, sha256)? else { return Ok(()) };
        match serde_json::from_slice::<CaptureRecord>(&json) {
            Ok(capture) => {
                let file =
                    capture.body.as_ref().map(|body| self.get(Kind::File, &body.sha256)).transpose()?;
                self.output.write_capture(&capture, file.flatten().as_deref())
            }
            Err(error) => {
                self.warn(&format!("the capture {sha256} is none: {error}"));
                Ok(())
            }
        }
    }

    fn get(&mut self, kind: Kind, sha256: &str) -> io::Result<Option<Vec<u8>>> {
        let what = match kind {
            Kind::File => "robots.txt",
            Kind::Capture => "capture",
        };
        match self.shelf.get(kind, sha256)? {
            Found::Content(content) => return Ok(Some(content)),
            Found::Missing => self.warn(&format!("the {what} {sha256} is missing from the evidence")),
            Found::Damaged(why) => self.warn(&format!("the {what} {sha256} is damaged: {why}")),
        }
        Ok(None)
    }

    fn warn(&mut self, what: &str) {
        self.is_partial = true;
        eprintln!("warning: {what}");
    }
}
