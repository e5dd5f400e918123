//! The fencing token of a lease: once the holder of a later lease has published, what the holder of
//! an earlier one publishes is refused.

/// The number of a lease, and the version of what was published under it: microseconds of the
/// engine's clock, and more than that of any lease of the origin before. The default, 0, is that of
/// an origin of which nothing is published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken(pub u64);

/// No token is so far ahead of the clock: a larger one is damage, or left by a clock that ran a day
/// fast, and would supersede all that is published.
pub(super) const AHEAD_MAX: u64 = 24 * 60 * 60 * 1_000_000;

impl LeaseToken {
    /// The token, unless it is too far ahead of `now`.
    pub(super) fn unless_ahead(self, now: u64) -> Option<Self> {
        (self.0 > 0 && self.0 <= now.saturating_add(AHEAD_MAX)).then_some(self)
    }
}
