//! Readers of the log: scan and filter, verification, replay, reports, bundles, the evidence as an
//! archive. They work on the files alone, also while a writer runs.

pub mod archive;
mod block;
mod block_reader;
pub mod bundle;
mod chain_check;
pub mod filter;
mod listing;
mod raw_record;
pub mod replay;
pub mod report;
mod scan;
pub mod verify;

pub use block::{Block, Extent, Line, Log, Rest, ScanError, ScanItem};
pub use chain_check::{ChainCheck, Link};
pub use filter::{CompiledFilter, Filter};
pub use scan::Scan;
