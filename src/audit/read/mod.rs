//! Readers of the log: scan and filter, verification, replay, reports, bundles, the evidence as an
//! archive, dossiers, and what was handed over as a tar file. They work on the files alone, also while a writer runs.

pub mod archive;
mod backwards;
mod block;
pub mod bundle;
pub mod dossier;
pub mod filter;
pub mod history;
pub mod package;
pub mod page;
pub mod replay;
pub mod report;
mod scan;
pub mod verify;

pub use archive::{ChainCheck, Link};
pub use block::{Block, Extent, Line, Log, Rest, ScanError, ScanItem};
pub use filter::{CompiledFilter, Filter};
pub use scan::Scan;
