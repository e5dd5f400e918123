//! Bounds that several files of `config` share, with unit and source.

/// Look-ups of names under way at once, whatever is set: each occupies a thread until the system's resolver
/// gives up, and of the 512 threads of a worker's pool some are for files.
pub const LOOKUPS_MAX: usize = 448;

/// Connection attempts to further addresses of a name, beside the first attempt of each request. Where the
/// limit on open files is low: one for so many descriptors, and no more look-ups of names either.
pub const ATTEMPTS_BESIDE_MAX: usize = 256;
/// Open files for each concurrent attempt.
pub const DESCRIPTORS_PER_ATTEMPT_BESIDE: usize = 16;
