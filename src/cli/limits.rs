//! Bounds that several files of `cli` share, with unit and source.

/// Bytes of a robots.txt or a URL that a line of `check --batch` may describe.
pub const BATCH_BYTES_MAX: u64 = 64 << 20;
