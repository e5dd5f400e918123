//! The evidence that a line names: members of a record, and of a notice about a changed robots.txt.

use serde::Deserialize;

use super::change_record::Side;
use super::denial_record::Record;
use super::meta_record::Notice;
use super::robots_record::Robots;
use crate::audit::evidence::{BlobName, Kind};
use crate::types::sanitize;

/// What of a line names its evidence: members of a record's `robots`, and of a notice's `from` and `to`.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct EvidenceRefs<'a> {
    /// How the file came.
    pub capture: Option<&'a str>,
    /// How the last attempt failed.
    pub failed_capture: Option<&'a str>,
    /// The file.
    pub sha256: Option<&'a str>,
}

impl<'a> EvidenceRefs<'a> {
    /// What it names.
    pub fn blobs(self) -> impl Iterator<Item = BlobName> + use<'a> {
        let Self { capture, failed_capture, sha256 } = self;
        [(Kind::File, sha256), (Kind::Capture, capture), (Kind::Capture, failed_capture)]
            .into_iter()
            .filter_map(|(kind, sha256)| Some((kind, sanitize::digest(sha256?)?)))
    }
}

impl Record {
    /// What names its evidence.
    pub fn evidence_refs(&self) -> Option<EvidenceRefs<'_>> {
        self.robots.as_deref().map(Robots::evidence_refs)
    }

    /// The evidence that it can be checked against.
    pub fn blobs(&self) -> impl Iterator<Item = BlobName> {
        self.evidence_refs().into_iter().flat_map(EvidenceRefs::blobs)
    }
}

impl Robots {
    fn evidence_refs(&self) -> EvidenceRefs<'_> {
        let [capture, failed_capture, sha256] =
            [&self.capture, &self.failed_capture, &self.sha256].map(|digest| digest.as_deref());
        EvidenceRefs { capture, failed_capture, sha256 }
    }
}

impl Side {
    fn evidence_refs(&self) -> EvidenceRefs<'_> {
        let [capture, failed_capture, sha256] =
            [&self.capture, &self.failed_capture, &self.sha256].map(|digest| digest.as_deref());
        EvidenceRefs { capture, failed_capture, sha256 }
    }
}

impl Notice {
    /// What names its evidence.
    pub fn evidence_refs(&self) -> impl Iterator<Item = EvidenceRefs<'_>> {
        let refs = match self {
            Self::Changed(changed) => {
                [&changed.from, &changed.to].map(|side| Some(side.evidence_refs()))
            }
            Self::Paced(paced) => [Some(paced.robots.evidence_refs()), None],
            _ => [None, None],
        };
        refs.into_iter().flatten()
    }

    /// The evidence that it can be checked against.
    pub fn blobs(&self) -> impl Iterator<Item = BlobName> {
        self.evidence_refs().flat_map(EvidenceRefs::blobs)
    }
}
