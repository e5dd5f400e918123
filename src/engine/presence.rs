//! Which proxies send requests to an origin.

use super::hold::Hold;

/// The proxies at an origin, and its hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// How many proxies send requests there, this one included if it has said so. A lane without a
    /// delay takes its part of the places: `max(1, concurrency / proxies)`.
    pub proxies: usize,
    pub hold: Option<Hold>,
}
