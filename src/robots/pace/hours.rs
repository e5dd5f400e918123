//! The time of day, and the hours for which a record holds.

pub(super) const MINUTE_MS: u32 = 60_000;
pub(super) const DAY_MS: u32 = 24 * 60 * MINUTE_MS;

/// A moment of the day, in milliseconds since midnight UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(pub(super) u32);

/// The hours of a day from one minute to another, which is outside; may pass midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) begin: u32,
    pub(super) end: u32,
}

impl TimeOfDay {
    /// The time of day so many milliseconds after midnight UTC, of any day.
    pub fn from_millis(millis: u64) -> Self {
        Self(u32::try_from(millis % u64::from(DAY_MS)).unwrap_or_default())
    }
}

impl Window {
    pub(super) fn contains(self, now: TimeOfDay) -> bool {
        if self.begin < self.end {
            (self.begin..self.end).contains(&now.0)
        } else {
            now.0 >= self.begin || now.0 < self.end
        }
    }

    /// Milliseconds until it begins; 0: `now` is within it.
    pub(super) fn begins_in(self, now: TimeOfDay) -> u32 {
        if self.contains(now) { 0 } else { (self.begin + DAY_MS - now.0) % DAY_MS }
    }
}
