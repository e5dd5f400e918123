//! A bundle: a part of a log as one tar file, to be handed on. It has the files of the log that have
//! lines of a time, each whole and as it is stored, the evidence that their lines name, and a
//! `head.json` of the last line. Unpacked it is a log; `verify --part` reads it as a part.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, Write};

use tar::{Builder, Header};

use super::scan::{Listing, Segment};
use super::{Extent, Log, ScanError};
use crate::audit::evidence::{LineRefs, name};
use crate::audit::segment::{
    FILE_NAME, FoundLine, HEAD_NAME, Lines, closed_name, head_text, read_key,
};
use crate::audit::{
    AnyLine, BUNDLE_ENTRIES_MAX, EVIDENCE_BYTES_MAX, Head, checked_hash, read_log_id,
};
use crate::runtime::files;
use crate::types::sanitize::hex;
use crate::types::timestamp::Timestamp;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Read(#[from] ScanError),
    #[error("the bundle cannot be written")]
    Output(#[from] io::Error),
    #[error("the part is too large for one bundle: choose a shorter time (--since, --until)")]
    TooLarge,
    #[error("the log has changed while it was read: try again")]
    Changed,
}

/// Damaged and missing parts of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacks {
    /// Lines that were changed or are no lines of a log.
    pub damaged: u64,
    /// Evidence that cannot be read, and why.
    pub evidence: Vec<String>,
}

/// The files of `log` that have lines of that time.
///
/// # Errors
///
/// A file of the log cannot be read.
pub fn find(
    log: &Log,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<Vec<Segment>, ScanError> {
    let mut listing = Listing::new(log.clone());
    if let Some(error) = listing.refresh()?.pop() {
        return Err(error);
    }
    let is_of_time = |segment: &&Segment| {
        let next = listing.after(Some(segment.first_seq)).and_then(|next| next.first_time);
        let is_before = next.is_some_and(|next| since.is_some_and(|since| next <= since));
        let is_after =
            segment.first_time.is_some_and(|first| until.is_some_and(|until| first >= until));
        !is_before && !is_after
    };
    Ok(listing.segments.iter().filter(is_of_time).cloned().collect())
}

/// Writes the bundle of these files of `log`. The same files are the same bundle.
///
/// # Errors
///
/// See [`WriteError`]. The file written by then is no bundle.
pub fn write(
    log: &Log,
    segments: &[Segment],
    output: impl Write,
    progress: &mut dyn FnMut(Extent, u64),
) -> Result<Lacks, WriteError> {
    let mut bundle = Bundle {
        output: Builder::new(output),
        lacks: Lacks::default(),
        named: BTreeSet::new(),
        last: None,
        lines: 0,
    };
    let total = segments.iter().map(|segment| segment.bytes).sum();
    let mut read = 0;
    for segment in segments {
        bundle.segment(segment)?;
        read += segment.bytes;
        progress(Extent { read, total }, bundle.lines);
    }
    bundle.evidence(log)?;
    if let Some((head, time)) = bundle.last.take() {
        let identity = read_log_id(&log.dir()).ok().flatten();
        let key = read_key(&log.dir()).ok().flatten();
        bundle.entry(HEAD_NAME, &head_text(&head, identity, key, time)?)?;
    }
    bundle.output.into_inner()?.flush()?;
    Ok(bundle.lacks)
}

struct Bundle<W: Write> {
    output: Builder<W>,
    lacks: Lacks,
    /// Names of the evidence that the lines name.
    named: BTreeSet<String>,
    /// The last line, and when it was written.
    last: Option<(Head, Timestamp)>,
    lines: u64,
}

impl<W: Write> Bundle<W> {
    fn entry(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.output.append(&header(name, content.len() as u64)?, content)
    }

    /// Adds a file as it is stored; of the one that is being written, the whole lines so far.
    fn segment(&mut self, segment: &Segment) -> Result<(), WriteError> {
        let failed = |error| ScanError::new(&segment.path, error);
        let mut file = match File::open(&segment.path) {
            // Closed, compressed or removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(WriteError::Changed);
            }
            opened => opened.map_err(failed)?,
        };
        let mut bytes = file.metadata().map_err(failed)?.len();
        let is_active = segment.path.file_name().is_some_and(|name| name == FILE_NAME);
        let most = if is_active { bytes } else { u64::MAX };
        let mut lines = Lines::of(file.try_clone().map_err(failed)?).map_err(failed)?;
        let mut is_first = true;
        let whole = loop {
            let before = lines.bytes;
            match lines.next().map_err(failed)? {
                FoundLine::Line(line) => {
                    let seq = self.line(line);
                    if is_first && seq.is_some_and(|seq| seq != segment.first_seq) {
                        return Err(WriteError::Changed);
                    }
                    is_first = false;
                }
                FoundLine::Rest(_) if is_active => break before,
                FoundLine::Rest(_) => self.lacks.damaged += 1,
                FoundLine::End => break before,
            }
            if lines.bytes >= most {
                break lines.bytes;
            }
        };
        if self.named.len() > BUNDLE_ENTRIES_MAX {
            return Err(WriteError::TooLarge);
        }
        let mut name = closed_name(segment.first_seq);
        if segment.path.extension().is_some_and(|extension| extension == "gz") {
            name.push_str(".gz");
        }
        if is_active {
            bytes = whole;
        }
        file.rewind().map_err(failed)?;
        Ok(self.output.append(&header(&name, bytes)?, io::Read::take(file, bytes))?)
    }

    /// Notes what a line names, and its number where it is whole.
    fn line(&mut self, line: &[u8]) -> Option<u64> {
        self.lines += 1;
        for (kind, sha256) in LineRefs::of(line).iter().flat_map(LineRefs::blobs) {
            self.named.insert(name(kind, &hex(&sha256)));
        }
        let Ok(hash) = checked_hash(line) else {
            self.lacks.damaged += 1;
            return None;
        };
        let AnyLine { seq, time, .. } = AnyLine::parse(line).ok()?;
        self.last = Some((Head { hash: hash.to_owned(), seq }, time?));
        Some(seq)
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

/// The header of an entry, which depends on nothing but these.
pub(super) fn header(name: &str, bytes: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header)
}
