//! Reading the log of denials: filters, following, verification, deciding again, the report of a
//! period, the evidence as an archive. Works on files alone, beside whoever writes them.

pub mod archive;
mod blocks;
mod brief;
pub mod bundle;
pub mod filter;
mod listing;
mod neighbours;
mod piece;
pub mod replay;
pub mod report;
mod scan;
pub mod verify;

pub use filter::{Filter, Sieve};
pub use neighbours::{Beside, Standing};
pub use piece::{Block, Extent, Line, Log, Piece, Rest, ScanError};
pub use scan::Scan;
