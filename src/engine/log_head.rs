//! The head of an audit log, of which the engine is a witness.

use crate::types::timestamp::Timestamp;

/// The last line of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Its number in the log.
    pub number: u64,
    /// Its SHA-256.
    pub hash: [u8; 32],
    /// When it was written, by the clock of its proxy.
    pub time: Timestamp,
}
