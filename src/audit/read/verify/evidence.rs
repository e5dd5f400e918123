//! Checks that the evidence named by records is there and matches them. Each blob is read once.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::fault::Problem;
use crate::audit::EvidenceRefs;
use crate::audit::evidence::{BlobStore, CaptureRecord, Found, Kind};
use crate::types::sanitize::digest;

type Digest = [u8; 32];

/// The evidence, and the blobs checked so far.
#[derive(Debug)]
pub(super) struct Checked {
    blob_store: BlobStore,
    files: HashSet<Digest>,
    receipts: HashSet<Digest>,
    /// Whether retention keeps all lines by them; none where that cannot be read.
    settings: HashMap<Digest, Option<bool>>,
    /// With the file that each brought; none where it brought none, or has a fault.
    captures: HashMap<Digest, Option<Digest>>,
    /// Paths of those that are missing.
    missing: HashSet<String>,
    /// Files that another program has compressed, since they were last asked for.
    of_other_gzip: Vec<String>,
}

impl Checked {
    pub(super) fn new(audit_dir: &Path) -> Self {
        Self {
            blob_store: BlobStore::of(audit_dir),
            files: HashSet::new(),
            receipts: HashSet::new(),
            settings: HashMap::new(),
            captures: HashMap::new(),
            missing: HashSet::new(),
            of_other_gzip: Vec::new(),
        }
    }

    /// The files that another program has compressed, among those that were read since this was last called.
    pub(super) fn take_of_other_gzip(&mut self) -> Vec<String> {
        std::mem::take(&mut self.of_other_gzip)
    }

    /// The path of a piece that was found missing, by its name in the directory of the log: it is said to be. Each is
    /// given once.
    pub(super) fn excuse(&mut self, name: &str) -> Option<String> {
        let path = self.blob_store.audit_dir().join(name).display().to_string();
        self.missing.take(&path)
    }

    /// How many pieces there were.
    pub(super) fn count(&self) -> usize {
        self.files.len() + self.captures.len() + self.settings.len() + self.receipts.len()
    }

    /// The faults of the evidence of a line, unless reported for an earlier line.
    pub(super) fn check(&mut self, robots: &EvidenceRefs<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(name) = robots.sha256 {
            self.file(name).into_iter().for_each(|problem| problems.push(problem));
        }
        for name in robots.capture.into_iter().chain(robots.failed_capture) {
            self.capture(name).into_iter().for_each(|problem| problems.push(problem));
        }
        problems.extend(robots.receipt.and_then(|name| self.receipt(name)));
        problems.extend(robots.settings.and_then(|name| self.settings(name)));
        let brought = robots.capture.and_then(digest).and_then(|name| *self.captures.get(&name)?);
        if let (Some(brought), Some(file)) = (brought, robots.sha256.and_then(digest))
            && brought != file
        {
            let why = "the capture tells of another file".into();
            problems.push(Problem::OtherEvidence { why });
        }
        problems
    }

    fn file(&mut self, name: &str) -> Option<Problem> {
        let Some(digest) = digest(name) else { return Some(no_name(name)) };
        if !self.files.insert(digest) {
            return None;
        }
        let content = read(&self.blob_store, Kind::File, name);
        self.look_at_gzip(Kind::File, name, content.is_ok());
        self.note_missing(content.err())
    }

    fn settings(&mut self, name: &str) -> Option<Problem> {
        let Some(digest) = digest(name) else { return Some(no_name(name)) };
        if self.settings.contains_key(&digest) {
            return None;
        }
        let content = read(&self.blob_store, Kind::Settings, name);
        self.settings.insert(digest, content.as_ref().ok().and_then(|content| keeps_all(content)));
        self.look_at_gzip(Kind::Settings, name, content.is_ok());
        self.note_missing(content.err())
    }

    fn receipt(&mut self, name: &str) -> Option<Problem> {
        let Some(digest) = digest(name) else { return Some(no_name(name)) };
        if !self.receipts.insert(digest) {
            return None;
        }
        let content = read(&self.blob_store, Kind::Receipt, name);
        self.look_at_gzip(Kind::Receipt, name, content.is_ok());
        self.note_missing(content.err())
    }

    /// Whether retention keeps all lines by the settings of this name, which have been checked.
    pub(super) fn keeps_all(&self, name: &str) -> Option<bool> {
        *self.settings.get(&digest(name)?)?
    }

    fn note_missing(&mut self, problem: Option<Problem>) -> Option<Problem> {
        if let Some(Problem::NoEvidence { path }) = &problem {
            self.missing.insert(path.clone());
        }
        problem
    }

    fn capture(&mut self, name: &str) -> Option<Problem> {
        let Some(key) = digest(name) else { return Some(no_name(name)) };
        if self.captures.contains_key(&key) {
            return None;
        }
        let capture = read_capture(&self.blob_store, name);
        self.look_at_gzip(Kind::Capture, name, capture.is_ok());
        let brought =
            capture.as_ref().ok().and_then(|capture| digest(&capture.body.as_ref()?.sha256));
        self.captures.insert(key, brought);
        self.note_missing(capture.err())
    }

    fn look_at_gzip(&mut self, kind: Kind, name: &str, is_whole: bool) {
        let path = self.blob_store.path(kind, name);
        if is_whole && !is_of_our_gzip(&path) {
            self.of_other_gzip.push(path.display().to_string());
        }
    }
}

fn keeps_all(settings: &[u8]) -> Option<bool> {
    let settings: HashMap<String, serde_json::Value> = serde_json::from_slice(settings).ok()?;
    let (age, size) = (settings.get("audit.retain")?, settings.get("audit.retain_size")?);
    Some(age == "forever" && size == "unlimited")
}

/// The capture of a name, as it was written.
pub(in crate::audit::read) fn read_capture(
    blob_store: &BlobStore,
    name: &str,
) -> Result<CaptureRecord, Problem> {
    let content = read(blob_store, Kind::Capture, name)?;
    serde_json::from_slice(&content)
        .map_err(|error| Problem::OtherEvidence { why: format!("{name} is no capture: {error}") })
}

/// The blob stored under a name.
pub(in crate::audit::read) fn read(
    blob_store: &BlobStore,
    kind: Kind,
    name: &str,
) -> Result<Vec<u8>, Problem> {
    let path = blob_store.path(kind, name);
    let shown = path.display().to_string();
    match blob_store.get(kind, name) {
        Ok(Found::Content(content)) => Ok(content),
        Ok(Found::Missing) => Err(Problem::NoEvidence { path: shown }),
        Ok(Found::Damaged(why)) => Err(Problem::ChangedEvidence { path: shown, why }),
        Err(error) => Err(Problem::ChangedEvidence { path: shown, why: error.to_string() }),
    }
}

pub(in crate::audit::read) fn no_name(name: &str) -> Problem {
    let why = format!("\"{}\" is no SHA-256", crate::types::sanitize::text(name.as_bytes(), 80));
    Problem::OtherEvidence { why }
}

/// Whether a compressed file begins as ours do (RFC 1952 §2.3): no flags, no time, no system. No
/// checksum covers those bytes, and they do not affect the content.
pub(super) fn is_of_our_gzip(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 10];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok()
        && head[..8] == [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]
        && matches!(head[8], 0 | 2 | 4)
        && head[9] == 255
}
