//! A bundle: a part of a log in one file, to be passed on and verified by itself. It is a tar file
//! (POSIX ustar) with, in this order, `bundle.json`, the lines as closed segments of a log, and the
//! evidence that they name as it is stored. All of it is determined by that content: the headers of
//! its entries have one form, nothing is between or behind them, so every byte of the file is
//! either checked or refused.

mod read;
mod write;

use std::io;

use serde::{Deserialize, Serialize};
use tar::Header;

use crate::audit::evidence::{self, Kind};
use crate::audit::{
    AnyLine, BUNDLE_ENTRIES_MAX, BUNDLE_SEGMENT_BYTES, BlobName, EVIDENCE_BYTES_MAX, Head,
    RECORD_LINE_BYTES_MAX, checked_hash, segment,
};
use crate::types::sanitize::{digest, hex};
pub use read::{ReadError, Unpacked, is_bundle, unpack, verify_bundle};
pub use write::{Lacks, WriteError, find, write};

/// Bytes of all files in a bundle: they are unpacked to be verified.
const BUNDLE_BYTES_MAX: u64 = 8 << 30;

/// Bytes of a bundle's `bundle.json`.
const BUNDLE_MANIFEST_BYTES_MAX: u64 = 4 << 10;

const MANIFEST: &str = "bundle.json";
const FORMAT: &str = "courtesy-bundle";
const VERSION: u64 = 1;
/// A tar file is made of blocks of that many bytes, and ends with two of zeros.
const BLOCK: usize = 512;
const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Which part of a log a bundle has: `bundle.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub first: First,
    pub format: String,
    pub last: Head,
    /// The head that the proxy had noted beside the log when the bundle was made.
    pub noted_head: Option<Head>,
    /// The version of the format.
    pub version: u64,
}

/// The first line, and the hash of the line before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct First {
    pub hash: String,
    pub prev: String,
    /// Its number in the chain, from 1.
    pub seq: u64,
}

impl Manifest {
    /// Whether its hashes are hashes: they are shown as they are.
    fn has_digests(&self) -> bool {
        let noted = self.noted_head.iter().map(|head| &head.hash);
        let mut hashes =
            [&self.first.hash, &self.first.prev, &self.last.hash].into_iter().chain(noted);
        hashes.all(|hash| digest(hash).is_some())
    }
}

impl First {
    /// Of a line, where its hash holds.
    fn of(line: &[u8]) -> Option<Self> {
        let hash = checked_hash(line).ok()?.to_owned();
        let AnyLine { prev, seq, .. } = AnyLine::parse(line).ok()?;
        Some(Self { hash, prev, seq })
    }
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    Manifest,
    Segment,
    Evidence(BlobName),
}

impl EntryKind {
    /// By its name, which has exactly one spelling.
    fn named(name: &str) -> Option<Self> {
        if name == MANIFEST {
            return Some(Self::Manifest);
        }
        if let Some((seq, ".jsonl")) = segment::ours(name) {
            return (segment::closed_name(seq) == name).then_some(Self::Segment);
        }
        let (_, file) = name.rsplit_once('/')?;
        let sha256 = digest(file.split_once('.')?.0)?;
        let of_kind = [Kind::File, Kind::Capture].map(|kind| (kind, sha256));
        of_kind.into_iter().find(|evidence| evidence_name(evidence) == name).map(Self::Evidence)
    }

    /// Bytes that it has at most.
    const fn bytes_max(self) -> u64 {
        match self {
            Self::Manifest => BUNDLE_MANIFEST_BYTES_MAX,
            Self::Segment => (BUNDLE_SEGMENT_BYTES + RECORD_LINE_BYTES_MAX) as u64,
            Self::Evidence(_) => EVIDENCE_BYTES_MAX,
        }
    }
}

fn evidence_name((kind, sha256): &BlobName) -> String {
    evidence::name(*kind, &hex(sha256))
}

/// The one form of an entry's header.
fn header(name: &str, bytes: u64) -> io::Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    Ok(header)
}

/// Bytes of zeros behind the content of an entry.
const fn padding(bytes: u64) -> usize {
    (bytes.next_multiple_of(BLOCK as u64) - bytes) as usize
}

/// Counts entries and bytes against the limits of a bundle, which are the same for writing and
/// reading.
#[derive(Debug, Default)]
struct Budget {
    entries: usize,
    bytes: u64,
}

impl Budget {
    /// Takes an entry in; false where it is too large, or one too many.
    const fn admits(&mut self, entry: EntryKind, bytes: u64) -> bool {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        bytes <= entry.bytes_max()
            && self.entries <= BUNDLE_ENTRIES_MAX
            && self.bytes <= BUNDLE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_bundle_has_are_those_of_entries() {
        let sha256 = "ab".repeat(32);
        for name in [
            MANIFEST.to_owned(),
            "denials-000000000012.jsonl".into(),
            format!("evidence/ab/{sha256}.txt.gz"),
            format!("evidence/ab/{sha256}.json.gz"),
        ] {
            assert!(EntryKind::named(&name).is_some(), "{name}");
        }
        for name in [
            "".to_owned(),
            "./bundle.json".into(),
            "denials.jsonl".into(),
            "denials-12.jsonl".into(),
            "denials-000000000012.jsonl.gz".into(),
            "../denials-000000000012.jsonl".into(),
            format!("evidence/ac/{sha256}.txt.gz"),
            format!("/evidence/ab/{sha256}.txt.gz"),
            format!("evidence/../ab/{sha256}.txt.gz"),
            format!("evidence/AB/{}.txt.gz", sha256.to_uppercase()),
            format!("evidence/ab/{sha256}.gz"),
        ] {
            assert_eq!(EntryKind::named(&name), None, "{name}");
        }
    }

    #[test]
    fn entries_are_bounded_one_by_one_and_all_together() {
        let mut budget = Budget::default();
        assert!(budget.admits(EntryKind::Manifest, BUNDLE_MANIFEST_BYTES_MAX));
        assert!(!budget.admits(EntryKind::Manifest, BUNDLE_MANIFEST_BYTES_MAX + 1));
        let mut budget = Budget { entries: BUNDLE_ENTRIES_MAX - 1, bytes: 0 };
        assert!(budget.admits(EntryKind::Segment, 1) && !budget.admits(EntryKind::Segment, 1));
        let mut budget = Budget { entries: 0, bytes: BUNDLE_BYTES_MAX - 1 };
        assert!(budget.admits(EntryKind::Segment, 1) && !budget.admits(EntryKind::Segment, 1));
    }
}
