//! Bounds that several files of `ca` share, with unit and source.

use std::time::Duration;

/// Life of a leaf certificate from its making. Another is made after two thirds of it.
pub const LEAF_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
