//! The state of the store on disk, for metrics and the control socket.

use serde::Serialize;

/// The state of the store on disk, for metrics and readiness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether a disk store is configured.
    pub enabled: bool,
    /// Why it cannot be used at present.
    pub failing: Option<String>,
    /// Origins in the file.
    pub entries: u64,
    /// Bytes of content, without the database's overhead.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Origins written or removed by this process.
    pub writes: u64,
    /// Origins waiting to be written.
    pub pending: u64,
    /// Origins dropped from the full write queue.
    pub dropped: u64,
    /// Origins evicted to keep the file within its limit.
    pub evicted: u64,
    /// Origins whose stored data was invalid.
    pub broken: u64,
    /// How often the file failed.
    pub errors: u64,
    /// Lookups.
    pub loads: u64,
    /// Lookups that found the origin.
    pub load_hits: u64,
}
