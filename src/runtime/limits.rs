//! Bounds that several files of `runtime` share, with unit and source.

/// Bytes of a file that an operator names: settings, certificates, keys, tokens.
pub const NAMED_FILE_BYTES_MAX: usize = 1 << 20;
