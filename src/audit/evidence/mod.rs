//! What a record can be checked against, years later and without us: the bytes of each robots.txt,
//! and how each answer came about. Both are kept once, by the SHA-256 of their content.

mod blob;
mod blob_store;
mod capture;
mod evidence_index;
pub mod warc;
mod warc_head;
mod warc_record;

pub use blob::{Exhibit, ExhibitName, Kind};
pub use blob_store::{Found, Shelf, name};
pub use capture::{Answer, Body, CaptureRecord, Failure};
pub use evidence_index::Inventory;
pub(crate) use evidence_index::{each_line, over};
