//! How the store on the disk does.

use serde::Serialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Whether there is to be one.
    pub enabled: bool,
    /// Why it cannot be used now.
    pub failing: Option<String>,
    /// Origins in the file.
    pub entries: u64,
    /// Bytes of what is kept, without what the database needs around it.
    pub bytes: u64,
    pub file_bytes: u64,
    /// Origins written or removed by this process.
    pub writes: u64,
    /// Origins that wait to be.
    pub pending: u64,
    /// Origins that could not wait longer: there was no room.
    pub dropped: u64,
    /// Origins that went because the file would have become too large.
    pub evicted: u64,
    /// Origins of which something was kept that did not hold.
    pub broken: u64,
    /// Times that the file failed.
    pub errors: u64,
    /// Origins looked for.
    pub loads: u64,
    /// Origins found.
    pub load_hits: u64,
}
