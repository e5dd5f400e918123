//! The settings of the store on disk.

use std::path::PathBuf;
use std::time::Duration;

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

/// Bytes of a robots.txt that are read: the default, and the least that RFC 9309 §2.5 permits.
pub const ROBOTS_TXT_BYTES: usize = 500 * 1024;

/// Bytes of the write queue to disk: a quarter of `robots.cache_size`, within these bounds. Room
/// for some dozens, or a few hundred, files of the largest kind.
pub const STORE_PENDING_BYTES_MIN: usize = 16 << 20;
/// The most.
pub const STORE_PENDING_BYTES_MAX: usize = 64 << 20;

/// Origins written in one transaction: each transaction waits for the disk once, so larger batches
/// are faster.
pub const STORE_BATCH_MAX: usize = 4096;

/// How long shutdown waits for the write queue.
pub const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a robots.txt that are parsed on the worker: a millisecond's work for hundreds of rules
/// with wildcards. Larger files are parsed on the blocking pool.
pub const PARSED_INLINE_BYTES_MAX: usize = 16 * 1024;
