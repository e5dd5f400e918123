//! Verifies a bundle: its lines as those of any log, their first and last against `bundle.json`,
//! and that every blob is named by a line.

use std::collections::BTreeSet;
use std::path::Path;

use super::{First, Manifest, Unpacked, evidence_name};
use crate::audit::evidence::LineRefs;
use crate::audit::read::verify::{Fault, Findings, GivenHead, NotedHead, Problem, verify_part};
use crate::audit::read::{Extent, Log, Scan, ScanError, ScanItem};
use crate::audit::{AnyLine, Head, split};

/// Verifies the bundle that was unpacked into `dir`. Heads of lines before or behind the part are
/// not held against it.
///
/// # Errors
///
/// The files in `dir` cannot be read.
pub fn verify(
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
