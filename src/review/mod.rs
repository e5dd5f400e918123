//! Reading the log of denials: filters, following, verification, deciding again, the report of a
//! period. Works on files alone, beside whoever writes them.

mod blocks;
mod listing;
pub mod report;
pub mod scan;

pub use scan::{Block, Extent, Line, Log, Piece, Rest, Scan, ScanError};
