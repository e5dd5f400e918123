//! Bounds that several files of `types` share, with unit and source.

/// Bytes of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_BYTES_MAX: usize = 253;
