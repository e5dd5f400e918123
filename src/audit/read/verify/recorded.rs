//! Checks the `totals` of a log against its records. A chain rewritten without some records is
//! consistent; the totals show their number.

use super::fault::Problem;
use crate::audit::{Content, Notice, Recorded};

/// The records since the last `totals`.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// None: not all lines since then are known, or there was no such line.
    recorded: Option<Recorded>,
    /// The number of the last line.
    seq: u64,
}

impl Counted {
    /// Counts the next trusted line. Returns the difference if it has totals that differ from the
    /// count.
    pub(super) fn line(&mut self, seq: u64, content: Option<&Content>) -> Option<Problem> {
        if seq != self.seq + 1 {
            self.doubt();
        }
        self.seq = seq;
        match content? {
            Content::Record(record) => {
                self.recorded.iter_mut().for_each(|counted| counted.add(record.event));
                None
            }
            Content::Notice(Notice::Totals(totals)) => {
                let counted = self.recorded.replace(Recorded::default());
                let (said, counted) = (totals.recorded?, counted?);
                (said != counted).then_some(Problem::OtherTotals { said, counted })
            }
            // A process counts from its start, and counts no more when it has stopped.
            Content::Notice(Notice::Started(_)) => {
                self.recorded = Some(Recorded::default());
                None
            }
            Content::Notice(Notice::Stopped(_)) => {
                self.doubt();
                None
            }
            Content::Notice(_) => None,
        }
    }

    /// A line is missing or changed: it may have been a record.
    pub(super) const fn doubt(&mut self) {
        self.recorded = None;
    }
}
