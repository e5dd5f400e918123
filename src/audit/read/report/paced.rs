//! The delays that robots.txt files asked for, by the `paced` notices of a log.

use serde::Serialize;

use super::events::Events;
use super::keys::PacedKey;
use super::tally::{Tally, TallyEntry, Top};
use super::time_member::print_option;
use super::usage::Use;
use crate::audit::{Paced, Totals};
use crate::types::timestamp::Timestamp;

/// Requests that were held, in all, and the lines that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacedRequests {
    /// None where only some origins are reported on: they are not counted apart.
    #[serde(flatten)]
    pub totals: Option<PacedTotals>,
    pub lines: PacedLines,
}

/// The lines with most days first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacedLines {
    pub rows: Vec<PacedLine>,
    /// How many lines there are; at least, if counts are approximate.
    pub distinct: u64,
    /// By how many days a row may be short; 0: all is exact.
    pub undercount_at_most: u64,
}

/// Requests that were held, or got no turn: by the totals that the proxy writes each hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PacedTotals {
    /// Requests that waited for their turn.
    pub held: u64,
    /// The sum of their waits.
    pub waited_ms: u64,
    /// Told to come back later.
    pub resting: u64,
}

/// One line of a robots.txt, and when it applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PacedLine {
    #[serde(flatten)]
    pub key: PacedKey,
    /// Days with a request that it applied to, of each proxy.
    pub days: u64,
    #[serde(serialize_with = "print_option")]
    pub first: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub last: Option<Timestamp>,
}

impl PacedTotals {
    pub(super) fn add(&mut self, totals: &Totals) {
        self.held = self.held.saturating_add(totals.paced);
        self.waited_ms = self.waited_ms.saturating_add(totals.waited_ms);
        self.resting = self.resting.saturating_add(totals.resting);
    }
}

/// Counts a day of the line of `paced`, in the place where tallies count records that were
/// forwarded.
pub(super) fn add(tally: &mut Tally<PacedKey, Use>, paced: &Paced) {
    tally.add(PacedKey::of(paced), Events { exempted: 1, ..Events::default() }).note(paced.time);
}

pub(super) fn lines(tally: &Tally<PacedKey, Use>, rows_max: usize) -> PacedLines {
    let Top { rows, distinct, undercount_at_most, .. } =
        tally.top(rows_max, |key: &PacedKey, entry: &TallyEntry<Use>| {
            let (first, last) = entry.detail.times.unzip();
            PacedLine { key: key.clone(), days: entry.events.all(), first, last }
        });
    PacedLines { rows, distinct, undercount_at_most }
}
