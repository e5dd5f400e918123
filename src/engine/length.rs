//! Lengths of time as they are sent to scripts.

use std::time::Duration;

use super::clock::{Micros, micros};

/// No length is longer: all sums of a few and a date stay below 2^53, where Lua counts exactly.
const LENGTH_MAX: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// A length in microseconds.
pub(super) fn bounded_micros(length: Duration) -> Micros {
    micros(length.min(LENGTH_MAX))
}
