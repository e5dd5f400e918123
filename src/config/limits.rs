//! Bounds that several files of `config` share, with unit and source.

/// Concurrent DNS lookups at most: each has a socket for each address family. Under a low limit on open
/// files there are fewer.
pub const LOOKUPS_MAX: usize = 256;

/// Concurrent connection attempts to further addresses of a name, beside the first attempt of each
/// request. Under a low limit on open files: one for so many descriptors, as of DNS lookups.
pub const ATTEMPTS_BESIDE_MAX: usize = 256;
/// Open files for each concurrent attempt.
pub const DESCRIPTORS_PER_ATTEMPT_BESIDE: usize = 16;
