//! Checks a file of the log as a whole: that its name fits its lines, and that its evidence index
//! has all blobs that they name. Retention removes blobs missing from the index together with
//! earlier segments.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::fault::Problem;
use crate::audit::{BlobName, Content, EvidenceIndex, segment};

/// The file that is read.
#[derive(Debug)]
pub(super) struct Entered {
    path: PathBuf,
    /// The number in its name, until a line of it has been held against that.
    named: Option<u64>,
    /// The number that its first line should have; none of the first file.
    next: Option<u64>,
    /// The blobs that its lines name, if there may be an index.
    names: Option<HashSet<BlobName>>,
}

impl Entered {
    pub(super) fn new(path: &Path, next: Option<u64>, with_evidence: bool) -> Self {
        let named = segment::named_seq(path);
        // Beside one that is not compressed yet there may be a list of another file of that name, to be written anew.
        let has_list =
            with_evidence && named.is_some() && path.extension().is_some_and(|it| it == "gz");
        Self { path: path.to_owned(), named, next, names: has_list.then(HashSet::new) }
    }

    /// A line that can be relied on; `number` is its place in the file, from 1.
    pub(super) fn line(
        &mut self,
        seq: u64,
        number: u64,
        content: Option<&Content>,
    ) -> Option<Problem> {
        if let (Some(names), Some(content)) = (&mut self.names, content) {
            names.extend(content.blobs());
        }
        let named = self.named.take()?;
        let first = seq.saturating_sub(number - 1);
        // Lines from its name on that are missing are a fault of the chain.
        let is_cut = self.next.is_some_and(|next| (next..first).contains(&named));
        (named != first && !is_cut).then_some(Problem::OtherName { named, first })
    }

    /// After its lines: the fault of the index.
    pub(super) fn end(self) -> Option<Problem> {
        let names = self.names?;
        let path = EvidenceIndex::path_beside(&self.path)?;
        let list = path.display().to_string();
        match EvidenceIndex::read(&path) {
            Ok(evidence_index) => {
                let missing = names.difference(&evidence_index.names).count();
                (missing > 0).then_some(Problem::ShortList { list, missing })
            }
            // Made anew where it is needed: a copy of the log may be without.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Problem::BadList { list, why: error.to_string() }),
        }
    }
}
