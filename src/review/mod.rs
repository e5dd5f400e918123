//! Reading the log of denials: filters, following, verification, deciding again, the report of a
//! period. Works on files alone, beside whoever writes them.

mod blocks;
mod brief;
pub mod filter;
mod listing;
pub mod replay;
pub mod scan;
pub mod verify;

pub use filter::{Filter, Sieve};
pub use scan::{Block, Extent, Line, Log, Piece, Rest, Scan, ScanError};
