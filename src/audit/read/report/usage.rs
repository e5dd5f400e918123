//! When something was used first and last.

use crate::types::timestamp::Timestamp;

/// When something was used.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Use {
    /// First and last.
    pub times: Option<(Timestamp, Timestamp)>,
}

impl Use {
    pub(super) fn note(&mut self, time: Timestamp) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }
}
