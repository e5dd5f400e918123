//! Makes the report from the counts.

use super::events::Events;
use super::keys::{ExemptionKey, OriginKey};
use super::logs::Log;
use super::paced::{self, PacedRequests};
use super::site::Site;
use super::summary::{
    Asked, ExemptionStatus, ExemptionUse, FileVersions, Forwarded, Outages, Report, Row,
    Unreachable,
};
use super::survey::Survey;
use super::tally::{Key, Tally, TallyEntry, Top};
use super::usage::Use;
use super::verified::Verified;
use crate::types::timestamp::Timestamp;
use std::time::Duration;

/// Bars of a report's chart over time: the days of a quarter, and what a terminal has room for.
const REPORT_BARS_MAX: usize = 92;

/// How long before its end an exemption is reported as expiring soon.
const EXEMPTION_NOTICE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How a report is to be.
#[derive(Clone, Debug)]
pub struct Request {
    /// Rows of each list.
    pub rows_max: usize,
    pub made_at: Timestamp,
    /// The origins reported on, as they were written; empty: all.
    pub origins: Vec<String>,
    /// The result of verifying the log; none without verification.
    pub verified: Option<Verified>,
}

impl Survey {
    /// The report of all records that were added.
    pub fn finish(self, request: Request) -> Report {
        let Request { rows_max, made_at, origins, verified } = request;
        let all_origins = origins.is_empty();
        let end = self.until.unwrap_or(made_at);
        let mut decided = self.decided;
        decided.counted_seconds = self.decided_times.sum().total.as_secs();
        let missing = self.losses.finish(&self.log, self.since.is_none());
        let log = if self.logs.is_empty() { self.log } else { Log::together(&self.logs) };
        // Begins with the log: nothing is known of the time before its first line.
        let since = self.since.max(log.since);
        let until = self.until.map(|until| until.min(made_at));
        Report {
            courtesy: env!("CARGO_PKG_VERSION"),
            made_at,
            period: Asked { since: self.since, until: self.until, origins },
            missing,
            log,
            logs: self.logs,
            writers: self.writers,
            verified,
            forwarded: Forwarded {
                records: self.records.events().forwarded(),
                events: forwarded(self.records.events()),
                by_origin: rows_of(&self.origins, rows_max, forwarded),
                by_agent: rows_of(&self.agents, rows_max, forwarded),
            },
            records: self.records,
            decided: all_origins.then_some(decided),
            by_origin: rows(&self.origins, rows_max),
            by_agent: rows(&self.agents, rows_max),
            by_rule: rows(&self.rules, rows_max),
            by_client: rows(&self.clients, rows_max),
            by_node: rows(&self.nodes, rows_max),
            by_profile: rows(&self.profiles, rows_max),
            paced: PacedRequests {
                totals: all_origins.then_some(self.paced_totals),
                lines: paced::lines(&self.paced, rows_max),
            },
            unreachable: unreachable(&self.origins, rows_max),
            exemptions: self
                .exemptions
                .top(rows_max, |key, entry| exemption(key, entry, end, made_at)),
            over_time: self.series.over(since, until, REPORT_BARS_MAX),
            robots_txt: robots_txt(&self.origins, rows_max),
        }
    }
}

fn rows<K: Key, D: Default>(tally: &Tally<K, D>, rows_max: usize) -> Top<Row<K>> {
    rows_of(tally, rows_max, |events| events)
}

fn rows_of<K: Key, D: Default>(
    tally: &Tally<K, D>,
    rows_max: usize,
    counted: impl Fn(Events) -> Events,
) -> Top<Row<K>> {
    tally.top_of(rows_max, &counted, |key, entry| {
        let events = counted(entry.events);
        Row { key: key.clone(), records: events.all(), events }
    })
}

const fn forwarded(events: Events) -> Events {
    Events { denied: 0, ..events }
}

fn unreachable(origins: &Tally<OriginKey, Site>, rows_max: usize) -> Unreachable {
    let outages = |(key, entry): (&OriginKey, &TallyEntry<Site>)| {
        let sum = entry.detail.unreachable.sum();
        (sum.count > 0).then(|| Outages {
            origin: key.origin.clone(),
            seconds: sum.total.as_secs(),
            outages: sum.count,
            longest_seconds: sum.longest.map_or(0, |longest| longest.length().as_secs()),
            longest_since: sum.longest.map(|longest| longest.from),
            agents: if entry.detail.unreachable_for_all {
                Vec::new()
            } else {
                entry.detail.unreachable_for.iter().cloned().collect()
            },
            records: entry.detail.unreachable_records,
        })
    };
    let mut rows: Vec<_> = origins.entries().filter_map(outages).collect();
    rows.sort_unstable_by(|a, b| b.seconds.cmp(&a.seconds).then_with(|| a.origin.cmp(&b.origin)));
    let origins = rows.len() as u64;
    rows.truncate(rows_max);
    Unreachable { origins, rows }
}

fn exemption(
    key: &ExemptionKey,
    entry: &TallyEntry<Use>,
    end: Timestamp,
    made_at: Timestamp,
) -> ExemptionUse {
    let status = match key.until {
        until if until <= made_at => ExemptionStatus::Expired,
        until if until <= end.plus(EXEMPTION_NOTICE) => ExemptionStatus::ExpiresSoon,
        _ => ExemptionStatus::Running,
    };
    let (first, last) = entry.detail.times.unzip();
    ExemptionUse { key: key.clone(), records: entry.events.all(), first, last, status }
}

fn robots_txt(origins: &Tally<OriginKey, Site>, rows_max: usize) -> Vec<FileVersions> {
    let versions = |key: &OriginKey, entry: &TallyEntry<Site>| FileVersions {
        origin: key.origin.clone(),
        versions: entry.detail.versions.sorted(),
        earlier: entry.detail.versions.earlier,
    };
    let mut files = origins.top(rows_max, versions).rows;
    files.retain(|file| !file.versions.is_empty());
    files
}
