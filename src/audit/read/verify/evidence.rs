//! Whether what the records name as evidence is there, and is what they say. Each piece is read once.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::fault::Problem;
use crate::audit::Naming;
use crate::audit::evidence::{CaptureRecord, Found, Kind, Shelf};
use crate::types::sanitize::digest;

type Digest = [u8; 32];

/// The evidence, and what of it has been checked.
#[derive(Debug)]
pub(super) struct Checked {
    shelf: Shelf,
    files: HashSet<Digest>,
    /// With the file that each brought; none where it brought none, or has a fault.
    captures: HashMap<Digest, Option<Digest>>,
    /// Files that another program has compressed, since they were last asked for.
    of_other_gzip: Vec<String>,
}

impl Checked {
    pub(super) fn new(audit_dir: &Path) -> Self {
        Self {
            shelf: Shelf::of(audit_dir),
            files: HashSet::new(),
            captures: HashMap::new(),
            of_other_gzip: Vec::new(),
        }
    }

    /// The files that another program has compressed, among those that were read since this was last called.
    pub(super) fn take_of_other_gzip(&mut self) -> Vec<String> {
        std::mem::take(&mut self.of_other_gzip)
    }

    /// How many pieces there were.
    pub(super) fn count(&self) -> usize {
        self.files.len() + self.captures.len()
    }

    /// What is wrong with the evidence of a line that has not been said of another one.
    pub(super) fn check(&mut self, robots: &Naming<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(name) = robots.sha256 {
            self.file(name).into_iter().for_each(|problem| problems.push(problem));
        }
        for name in robots.capture.into_iter().chain(robots.failed_capture) {
            self.capture(name).into_iter().for_each(|problem| problems.push(problem));
        }
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
        let content = read(&self.shelf, Kind::File, name);
        self.look_at_gzip(Kind::File, name, content.is_ok());
        content.err()
    }

    fn capture(&mut self, name: &str) -> Option<Problem> {
        let Some(key) = digest(name) else { return Some(no_name(name)) };
        if self.captures.contains_key(&key) {
            return None;
        }
        let capture = read_capture(&self.shelf, name);
        self.look_at_gzip(Kind::Capture, name, capture.is_ok());
        let brought =
            capture.as_ref().ok().and_then(|capture| digest(&capture.body.as_ref()?.sha256));
        self.captures.insert(key, brought);
        capture.err()
    }

    fn look_at_gzip(&mut self, kind: Kind, name: &str, is_whole: bool) {
        let path = self.shelf.path(kind, name);
        if is_whole && !is_of_our_gzip(&path) {
            self.of_other_gzip.push(path.display().to_string());
        }
    }
}

/// The capture of a name, as it was written.
pub(in crate::audit::read) fn read_capture(
    shelf: &Shelf,
    name: &str,
) -> Result<CaptureRecord, Problem> {
    let content = read(shelf, Kind::Capture, name)?;
    serde_json::from_slice(&content)
        .map_err(|error| Problem::OtherEvidence { why: format!("{name} is no capture: {error}") })
}

/// What is kept under a name, as it was written.
pub(in crate::audit::read) fn read(
    shelf: &Shelf,
    kind: Kind,
    name: &str,
) -> Result<Vec<u8>, Problem> {
    let path = shelf.path(kind, name);
    let shown = path.display().to_string();
    match shelf.get(kind, name) {
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

/// Whether a compressed file begins as ours do (RFC 1952 §2.3): no flags, no time, no system. Those
/// bytes are under no checksum, and say nothing of the content.
pub(super) fn is_of_our_gzip(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 10];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok()
        && head[..8] == [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]
        && matches!(head[8], 0 | 2 | 4)
        && head[9] == 255
}
