//! The settings of the store on disk.

use std::path::PathBuf;
use std::time::Duration;

use crate::store::limits::STORE_PENDING_BYTES_MAX;

/// How long to wait before reopening a file that failed.
const STORE_RETRY: Duration = Duration::from_secs(60);

/// The settings of the store on disk.
#[derive(Clone, Debug)]
pub struct Config {
    pub path: PathBuf,
    /// Bytes of the file. The least recently written origins are evicted first.
    pub size_max: u64,
    /// Bytes of memory for the write queue.
    pub pending_max: usize,
    /// How long to wait before reopening a file that failed.
    pub retry: Duration,
}

impl Config {
    /// The defaults, with the file at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self { path, size_max: 1 << 30, pending_max: STORE_PENDING_BYTES_MAX, retry: STORE_RETRY }
    }
}
