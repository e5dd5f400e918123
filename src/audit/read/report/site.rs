//! Details of one origin: which versions of its robots.txt decided, and when it was unreachable.

use std::collections::{BTreeSet, HashMap};

use serde::Serialize;

use super::events::Events;
use super::series::{Stretch, Stretches, print_moment, print_option};
use super::tally::{PacedKey, Tally, TallyEntry, Top, Use};
use crate::audit::{Paced, Reason, Record, RobotsStatus, SiteCounts, Totals};
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

/// Sites whose counts are added apart; of more, the rest is one.
const FETCHED_SITES_MAX: usize = 100_000;

/// What was asked of each site, allowed requests among them, as proxies count it each hour and at their end.
#[derive(Debug, Default)]
pub struct Fetched {
    sites: HashMap<String, SiteCounts>,
    /// Of sites without a line of their own.
    rest: Option<SiteCounts>,
}

/// The busiest sites, and the sum of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FetchedSites {
    /// How many sites have rows or would have.
    pub sites: u64,
    pub rows: Vec<FetchedRow>,
    /// Requests to sites without a row.
    pub others: u64,
}

/// What was asked of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FetchedRow {
    pub origin: String,
    /// Requests, whatever became of them.
    pub asked: u64,
    /// Requests that robots.txt, or the lack of one, allowed.
    pub allowed: u64,
    /// Requests answered with the denial.
    pub denied: u64,
    /// Disallowed, and forwarded all the same: observed, exempted, or in tunnels unseen.
    pub forwarded: u64,
    /// Requests that waited for their time.
    pub held: u64,
    /// Bytes of contents that were passed on.
    pub bytes: u64,
}

impl Fetched {
    /// Takes in a line.
    pub fn add(&mut self, counts: &SiteCounts) {
        let own = counts.origin.as_ref();
        let has_room = self.sites.len() < FETCHED_SITES_MAX;
        let sum = match own.filter(|origin| has_room || self.sites.contains_key(*origin)) {
            Some(origin) => self.sites.get_mut(origin),
            None => self.rest.as_mut(),
        };
        match (sum, own.filter(|_| has_room)) {
            (Some(sum), _) => sum.add(counts),
            (None, Some(origin)) => {
                self.sites.insert(origin.clone(), counts.clone());
            }
            (None, None) => self.rest = Some(counts.clone()),
        }
    }

    /// The sites with most requests, `rows_max` of them.
    pub fn finish(self, rows_max: usize) -> FetchedSites {
        let mut all: Vec<_> = self.sites.into_iter().collect();
        all.sort_by(|(one, a), (other, b)| (b.asked(), one).cmp(&(a.asked(), other)));
        let sites = all.len() as u64;
        let others = all.iter().skip(rows_max).map(|(_, counts)| counts.asked()).sum::<u64>();
        let others = others + self.rest.as_ref().map_or(0, SiteCounts::asked);
        let row = |(origin, counts): (String, SiteCounts)| FetchedRow {
            origin,
            asked: counts.asked(),
            allowed: counts.allowed,
            denied: counts.denied,
            forwarded: counts.forwarded(),
            held: counts.paced,
            bytes: counts.bytes,
        };
        FetchedSites { sites, rows: all.into_iter().take(rows_max).map(row).collect(), others }
    }
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
    /// None where not all requests are reported on: they are not counted apart.
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
