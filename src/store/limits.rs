//! Bounds that several files of `store` share, with unit and source.

use std::time::Duration;

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
