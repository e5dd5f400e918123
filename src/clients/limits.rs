//! Bounds that several files of `clients` share, with unit and source.

/// Rejected connections that are answered with the reason; more are closed without an answer.
pub const REJECTED_MAX: usize = 64;

/// Bytes of a password that is set.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// The same of files with a line for each of many: users, published heads.
pub const NAMED_LIST_BYTES_MAX: usize = 16 << 20;
