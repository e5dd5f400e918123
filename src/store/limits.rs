//! Bounds that several files of `store` share, with unit and source.

use std::time::Duration;

/// Bytes of a robots.txt that are read: the default, and the least that RFC 9309 §2.5 permits.
pub const ROBOTS_TXT_BYTES: usize = 500 * 1024;

/// Bytes that this knowledge may take at the most: a quarter of `robots.cache_size` within these bounds.
/// Some dozens, or a few hundred, files of the largest kind.
pub const STORE_PENDING_BYTES_MIN: usize = 16 << 20;
pub const STORE_PENDING_BYTES_MAX: usize = 64 << 20;

/// Origins in one transaction of the store: each costs a wait for the disk, so the more, the faster.
pub const STORE_BATCH_MAX: usize = 4096;

/// How long the proxy's end waits for what is still to be written to the store.
pub const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a robots.txt that are parsed where they arrived: a millisecond's work, where they are hundreds of
/// rules with wildcards. More is done on a thread that serves nobody.
pub const PARSED_INLINE_BYTES_MAX: usize = 16 * 1024;
