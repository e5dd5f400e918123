//! The report as data. Its JSON is a public interface: a member is added, never changed.

use std::collections::BTreeMap;

use serde::Serialize;

use super::events::{Events, EventsByReason};
use super::missing::{Log, Missing, NamedLog, Writers, widen};
use super::register::ExemptionRegister;
use super::series::{ByReason, OverTime, print_moment, print_option};
use super::site::{FetchedSites, PacedRequests, Version};
use super::tally::{
    AgentKey, ClientKey, ExemptionKey, NodeKey, OriginKey, ProfileKey, RuleKey, Top,
};
use super::timeline::Timeline;
use crate::audit::read::dossier::{CheckedDossier, DossierFault};
use crate::audit::read::verify::Findings;
use crate::audit::{Event, Head, Record, Totals};
use crate::types::timestamp::Timestamp;

/// The report of a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The version of courtesy that made it.
    pub courtesy: &'static str,
    #[serde(serialize_with = "print_moment")]
    pub made_at: Timestamp,
    pub period: Asked,
    /// Of several logs, the sum.
    pub log: Log,
    /// Each of several; left out of a report on one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<NamedLog>,
    pub writers: Writers,
    /// None where the log was not verified.
    pub verified: Option<Verified>,
    pub records: Records,
    /// None where not all requests are reported on: they are not counted apart.
    pub decided: Option<Decided>,
    /// When the proxy was on, and in which mode.
    pub service: Timeline,
    pub missing: Missing,
    pub forwarded: Forwarded,
    pub by_origin: Top<Row<OriginKey>>,
    pub by_agent: Top<Row<AgentKey>>,
    pub by_rule: Top<Row<RuleKey>>,
    pub by_client: Top<Row<ClientKey>>,
    pub by_node: Top<Row<NodeKey>>,
    pub by_profile: Top<Row<ProfileKey>>,
    /// What was asked of each site, and what became of it.
    pub fetched: FetchedSites,
    /// Requests that were held because a line of a robots.txt asks for it, and for other reasons.
    pub paced: PacedRequests,
    pub unreachable: Unreachable,
    /// Uses of exemptions, by origin.
    pub exemptions: Top<ExemptionUse>,
    /// The exemptions themselves, the unused ones too.
    pub register: ExemptionRegister,
    pub over_time: OverTime,
    /// Of the origins with most records.
    pub robots_txt: Vec<FileVersions>,
}

/// The request for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asked {
    #[serde(serialize_with = "print_option")]
    pub since: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub until: Option<Timestamp>,
    /// The origins reported on, as they were written; empty: all.
    pub origins: Vec<String>,
    /// The same of product tokens.
    pub agents: Vec<String>,
    /// The same of clients.
    pub clients: Vec<String>,
}

impl Asked {
    /// Whether all records of the period are reported on.
    pub const fn is_of_all(&self) -> bool {
        self.origins.is_empty() && self.agents.is_empty() && self.clients.is_empty()
    }
}

/// The records of the period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Records {
    /// How many.
    pub all: u64,
    pub by_event: BTreeMap<Event, u64>,
    pub by_reason: ByReason,
    /// Records by reason and event.
    pub events_by_reason: EventsByReason,
    /// Decided by their path.
    pub by_path: u64,
    /// Decided by their host alone.
    pub by_host: u64,
    #[serde(serialize_with = "print_option")]
    pub first: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub last: Option<Timestamp>,
}

/// How many requests were decided in all, those without a record included: the totals that the
/// proxy notes from time to time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decided {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests answered with the denial.
    pub denied: u64,
    /// Requests decided by their path.
    pub by_path: u64,
    /// Requests decided by their host alone.
    pub by_host: u64,
    /// Requests and tunnels that went by a parent proxy.
    pub by_parent: u64,
    #[serde(serialize_with = "print_option")]
    pub since: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub until: Option<Timestamp>,
    /// How much of that time was counted.
    pub counted_seconds: u64,
}

/// How many records have one thing in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row<K> {
    #[serde(flatten)]
    pub key: K,
    /// How many.
    pub records: u64,
    /// The same records, by event.
    #[serde(flatten)]
    pub events: Events,
}

/// Requests forwarded although disallowed: observed, exempted, or tunnelled with unseen paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forwarded {
    /// How many.
    pub records: u64,
    #[serde(flatten)]
    pub events: Events,
    /// Most forwarded first; origins of which nothing was are left out.
    pub by_origin: Top<Row<OriginKey>>,
    pub by_agent: Top<Row<AgentKey>>,
}

/// The origins whose robots.txt was unreachable, by their records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    /// How many.
    pub origins: u64,
    /// The longest first.
    pub rows: Vec<Outages>,
}

/// When one origin's robots.txt could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outages {
    pub origin: String,
    /// The length of its outages together.
    pub seconds: u64,
    /// How many outages.
    pub outages: u64,
    /// The length of the longest.
    pub longest_seconds: u64,
    #[serde(serialize_with = "print_option")]
    pub longest_since: Option<Timestamp>,
    /// For which agents alone that holds; none where it holds for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// Records of requests denied for that.
    pub records: u64,
}

/// How an exemption was used on one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExemptionUse {
    #[serde(flatten)]
    pub key: ExemptionKey,
    /// Records that name the exemption.
    pub records: u64,
    #[serde(serialize_with = "print_option")]
    pub first: Option<Timestamp>,
    #[serde(serialize_with = "print_option")]
    pub last: Option<Timestamp>,
    #[serde(rename = "standing")]
    pub status: ExemptionStatus,
}

/// Whether an exemption needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExemptionStatus {
    Running,
    /// It ends within `EXEMPTION_NOTICE` of the period's end.
    ExpiresSoon,
    /// It had ended when the report was made.
    Expired,
}

/// The versions of one robots.txt that records name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileVersions {
    pub origin: String,
    /// The latest, in the order of time.
    pub versions: Vec<Version>,
    /// How many came before those.
    pub earlier: u64,
}

impl Records {
    /// All records, by event.
    pub fn events(&self) -> Events {
        let mut all = Events::default();
        self.events_by_reason.values().for_each(|events| all.add(*events));
        all
    }

    pub(super) fn add(&mut self, record: &Record) {
        self.all += 1;
        *self.by_event.entry(record.event).or_default() += 1;
        *self.by_reason.entry(record.reason).or_default() += 1;
        self.events_by_reason.entry(record.reason).or_default().add(Events::one(record.event));
        if record.path_seen {
            self.by_path += 1
        } else {
            self.by_host += 1
        }
        widen(&mut self.first, &mut self.last, record.time);
    }
}

impl Decided {
    pub(super) fn add<E>(&mut self, totals: &Totals<E>) {
        self.allowed = self.allowed.saturating_add(totals.allowed);
        self.denied = self.denied.saturating_add(totals.denied);
        self.by_path = self.by_path.saturating_add(totals.by_path);
        self.by_host = self.by_host.saturating_add(totals.by_host);
        self.by_parent = self.by_parent.saturating_add(totals.by_parent);
        widen(&mut self.since, &mut self.until, totals.since);
        widen(&mut self.since, &mut self.until, totals.time);
    }
}

/// The result of verifying the log before the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Whether there are no faults.
    pub holds: bool,
    /// How many faults.
    pub fault_count: u64,
    /// The first of them, in words.
    pub first_fault: Option<String>,
    /// The last line that was verified; none in an empty log. Later lines were written during the
    /// report.
    pub head: Option<Head>,
    /// Published heads that the log was held against.
    pub published_heads: u64,
    /// The last line that is under a published head; none where no such head was found, or of several logs.
    pub published_up_to: Option<u64>,
    /// Heads were given, and none of them is of this log.
    pub is_without_heads: bool,
    /// What `courtesy audit verify` says of it first; of several logs, of the first that does not hold.
    pub verdict: String,
}

impl Verified {
    /// The summary of a verification.
    pub fn of(findings: &Findings) -> Self {
        let faults = &findings.faults;
        Self {
            holds: faults.count == 0,
            fault_count: faults.count,
            first_fault: faults.described.first().map(ToString::to_string),
            head: findings.head.clone(),
            published_heads: findings.published.len() as u64,
            published_up_to: findings.published_up_to().map(|head| head.seq),
            is_without_heads: findings.is_without_heads(),
            verdict: findings.verdict(),
        }
    }

    /// Of a dossier, which has its own checkpoint.
    pub fn of_dossier(outcome: &Result<CheckedDossier, DossierFault>) -> Self {
        let published = || outcome.iter().flat_map(|checked| &checked.published);
        Self {
            holds: outcome.is_ok(),
            fault_count: u64::from(outcome.is_err()),
            first_fault: outcome.as_ref().err().map(ToString::to_string),
            head: None,
            published_heads: published().count() as u64,
            published_up_to: published().copied().max(),
            is_without_heads: false,
            verdict: match outcome {
                Ok(_) => "The dossier holds".into(),
                Err(_) => "The dossier does not hold".into(),
            },
        }
    }

    /// Of several logs: whether all hold. Only one has a head.
    pub fn together(each: Vec<Self>) -> Self {
        let is_alone = each.len() == 1;
        let worst = each.iter().find(|one| !one.holds).or(each.first());
        let none = Self {
            holds: true,
            fault_count: 0,
            first_fault: None,
            head: None,
            published_heads: 0,
            published_up_to: None,
            is_without_heads: false,
            verdict: worst.map(|one| one.verdict.clone()).unwrap_or_default(),
        };
        each.into_iter().fold(none, |all, one| Self {
            holds: all.holds && one.holds,
            fault_count: all.fault_count.saturating_add(one.fault_count),
            first_fault: all.first_fault.or(one.first_fault),
            head: one.head.filter(|_| is_alone),
            published_heads: one.published_heads,
            published_up_to: one.published_up_to.filter(|_| is_alone),
            is_without_heads: all.is_without_heads || one.is_without_heads,
            verdict: all.verdict,
        })
    }
}
