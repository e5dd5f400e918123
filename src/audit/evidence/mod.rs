//! Evidence: the bytes of each robots.txt, and captures of how it was fetched, so that records can
//! be checked years later and without this program. Each is stored once, as a blob named by the
//! SHA-256 of its content.

mod blob;
mod blob_store;
mod capture;
mod evidence_index;
pub mod warc;
mod warc_head;
mod warc_record;

pub use blob::{Blob, BlobName, Kind};
pub use blob_store::{BlobStore, Found, name};
pub use capture::{Answer, Body, CaptureRecord, Failure};
pub use evidence_index::EvidenceIndex;
pub(crate) use evidence_index::{LineRefs, each_line, over};
