//! Checks whether the times of lines go back. Clocks may be set back, so that is no fault.

use super::fault::At;
use super::note::{Note, Unusual};
use crate::types::timestamp::Timestamp;
use std::time::Duration;

/// How far the time of a line may be before that of the line before it and mean nothing: lines wait for the disk,
/// and so do not stand quite in the order of their times.
const VERIFY_TIME_SLACK: Duration = Duration::from_secs(60);

/// The times read so far.
#[derive(Debug, Default)]
pub(super) struct Times {
    last: Option<(At, Timestamp)>,
    /// The first that went back, with the count of all.
    note: Option<Note>,
}

impl Times {
    /// The time of the next line. Lines wait for the disk, so steps back that are short mean nothing.
    pub(super) fn line(&mut self, at: &At, seq: u64, time: Timestamp) {
        let before = self.last.replace((at.clone(), time));
        let Some((before, time_before)) =
            before.filter(|(_, it)| time.plus(VERIFY_TIME_SLACK) < *it)
        else {
            return;
        };
        match &mut self.note {
            Some(Note { what: Unusual::Backwards { count, .. }, .. }) => *count += 1,
            _ => {
                let what = Unusual::Backwards { time, before, time_before, count: 1 };
                self.note = Some(Note { at: at.clone(), seq: Some(seq), what });
            }
        }
    }

    pub(super) fn end(self) -> Option<Note> {
        self.note
    }
}
