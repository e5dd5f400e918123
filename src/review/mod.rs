//! Reading the log of denials: filters, following, verification, deciding again, the report of a
//! period. Works on files alone, beside whoever writes them.

mod blocks;
mod brief;
pub mod filter;
mod listing;
mod piece;
mod scan;

pub use filter::{Filter, Sieve};
pub use piece::{Block, Extent, Line, Log, Piece, Rest, ScanError};
pub use scan::Scan;
