//! Details of one origin: which versions of its robots.txt decided, and when it was unreachable.

use std::collections::BTreeSet;

use serde::Serialize;

use super::events::Events;
use super::series::{Stretch, Stretches, print_moment, print_option};
use super::tally::{PacedKey, Tally, TallyEntry, Top, Use};
use crate::audit::{Paced, Reason, Record, RobotsStatus, Totals};
use crate::types::timestamp::Timestamp;

/// Versions of one robots.txt that a report tells apart; the earliest are counted.
const REPORT_VERSIONS_MAX: usize = 8;

/// Agents of one origin that are named: as many as a proxy keeps answers for.
const AGENTS_MAX: usize = 8;

/// One origin.
#[derive(Debug, Default)]
pub struct Site {
    pub unreachable: Stretches,
    /// The agents that alone were concerned, by the records; a few of them.
    pub unreachable_for: BTreeSet<String>,
    /// Whether it was for all agents at some time.
    pub unreachable_for_all: bool,
    /// Records that say it was refused for that.
    pub unreachable_records: u64,
    pub versions: Versions,
}

/// The latest versions of a robots.txt.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    /// In the order in which they came.
    pub latest: Vec<Version>,
    /// How many came before those.
    pub earlier: u64,
}

/// A robots.txt, as records name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    pub sha256: String,
    /// The first record that names it.
    #[serde(serialize_with = "print_moment")]
    pub first: Timestamp,
    #[serde(serialize_with = "print_moment")]
    pub last: Timestamp,
    /// Records that name it.
    pub records: u64,
}

impl Site {
    /// Takes in a record of this origin. Times before `since` are left out.
    pub fn add(&mut self, record: &Record, since: Option<Timestamp>) {
        self.unreachable_records += u64::from(record.reason == Reason::RobotsUnreachable);
        let Some(robots) = &record.robots else { return };
        if let Some(sha256) = &robots.sha256 {
            self.versions.add(sha256, record.time);
        }
        // A rule of an earlier copy may have decided in between; the file was still unreachable.
        if robots.state == RobotsStatus::Unreachable {
            let from =
                robots.since.unwrap_or(record.time).max(since.unwrap_or(Timestamp::from_millis(0)));
            self.unreachable.add(Stretch { from, to: record.time });
            match &robots.asked_as {
                None => self.unreachable_for_all = true,
                Some(agent) if self.unreachable_for.len() < AGENTS_MAX => {
                    self.unreachable_for.insert(agent.clone());
                }
                Some(_) => {}
            }
        }
    }
}

impl Versions {
    fn add(&mut self, sha256: &str, time: Timestamp) {
        if let Some(known) = self.latest.iter_mut().rev().find(|version| version.sha256 == sha256) {
            (known.first, known.last) = (known.first.min(time), known.last.max(time));
            known.records += 1;
            return;
        }
        self.latest.push(Version {
            sha256: sha256.to_owned(),
            first: time,
            last: time,
            records: 1,
        });
        if self.latest.len() > REPORT_VERSIONS_MAX {
            self.latest.remove(0);
            self.earlier += 1;
        }
    }

    /// In the order of time.
    pub fn sorted(&self) -> Vec<Version> {
        let mut versions = self.latest.clone();
        versions.sort_by(|a, b| (a.first, &a.sha256).cmp(&(b.first, &b.sha256)));
        versions
    }
}

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
    pub(super) fn add<E>(&mut self, totals: &Totals<E>) {
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
