//! How many decisions the gate has made, by what they rest on, those that leave no record included:
//! without them nobody could tell from the log alone whether one request in ten was denied or all of
//! them. And how often the way out failed or was closed, which the gate hears of first.

use std::sync::atomic::{AtomicU64, Ordering};

use super::decision_log::DecisionLog;
use crate::audit::{Event, Reason};
use crate::egress::Failure;
use crate::policy::decision::Basis;
use crate::runtime::sharded_counters::ShardedCounters;

/// Shared by all workers.
#[derive(Debug, Default)]
pub struct Decisions {
    /// By outcome, basis and sight, in one row: an everyday decision is one addition.
    table: ShardedCounters<{ OUTCOMES.len() * BASES.len() * SIGHTS }>,
    failures: ShardedCounters<{ Failure::PROXY_ERRORS.len() }>,
    closed_ports: AtomicU64,
    /// What of them the log of the process says.
    pub log: DecisionLog,
}

/// What became of a request, in a word, and the bases on which that can be.
const OUTCOMES: [(&str, &[&str]); 5] = [
    ("allow", BASES.split_at(DECIDED).0),
    (
        "deny",
        &[
            "rule",
            "unavailable",
            "unreachable",
            "path_not_seen",
            "origin_refused",
            "undecided",
            "tunnel_not_http",
            "agent_required",
            "sni_mismatch",
        ],
    ),
    ("would_deny", &["rule", "unavailable", "unreachable", "path_not_seen", "undecided"]),
    ("exempted", &["rule", "unavailable", "unreachable", "path_not_seen", "undecided"]),
    ("tunnelled", &["path_not_seen"]),
];

/// So many of them are what a decision can rest on; the others are reasons of records alone.
const DECIDED: usize = 7;

/// What a decision rests on: its basis, or where it has none, the reason in its record.
const BASES: [&str; 13] = [
    "robots_txt_itself",
    "no_group",
    "no_rule",
    "rule",
    "unavailable",
    "unreachable",
    "long_unreachable",
    "path_not_seen",
    "origin_refused",
    "undecided",
    "tunnel_not_http",
    "agent_required",
    "sni_mismatch",
];

/// What of a way out that fails is a refusal of ours.
const REFUSALS: [Failure; 3] = [Failure::AddressProhibited, Failure::HostProhibited, Failure::Loop];

/// By a path, and by a host as a whole.
const SIGHTS: usize = 2;

/// The numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    pub allowed: u64,
    /// Of a host as a whole: no path was seen.
    pub by_host: u64,
    pub by_path: u64,
    pub denied: u64,
}

impl Decisions {
    /// A request that robots.txt, or the lack of it, allows.
    pub(super) fn allowed(&self, basis: &Basis<'_>, path_seen: bool) {
        let basis = match basis {
            Basis::RobotsTxtItself => 0,
            Basis::NoGroup => 1,
            Basis::NoRule { .. } => 2,
            Basis::Rule { .. } => 3,
            Basis::Unavailable(_) => 4,
            Basis::Unreachable(_) => 5,
            Basis::LongUnreachable(_) => 6,
            // It allows nothing.
            Basis::TooManySteps { .. } => 9,
        };
        self.table.add(place(0, basis, path_seen), 1);
    }

    /// One that has left a record.
    pub(super) fn recorded(&self, event: Event, reason: Reason, path_seen: bool) {
        let outcome = match event {
            Event::Denied => 1,
            Event::WouldDeny => 2,
            Event::Exempted => 3,
            Event::Tunnelled => 4,
        };
        let basis = match reason {
            Reason::DisallowRule => 3,
            Reason::RobotsAccessDenied => 4,
            Reason::RobotsUnreachable => 5,
            Reason::PathNotSeen => 7,
            Reason::OriginRefused => 8,
            Reason::Undecided => 9,
            Reason::TunnelNotHttp => 10,
            Reason::AgentRequired => 11,
            Reason::SniMismatch => 12,
        };
        self.table.add(place(outcome, basis, path_seen), 1);
    }

    /// The way out was closed, or failed.
    pub(super) fn failed(&self, failure: Failure) {
        self.failures.add(failure.place(), 1);
    }

    /// A CONNECT to a port that is not listed.
    pub(super) fn port_closed(&self) {
        self.closed_ports.fetch_add(1, Ordering::Relaxed);
    }

    pub fn counts(&self) -> DecisionCounts {
        let mut counts = DecisionCounts::default();
        for (place, number) in self.table.values().into_iter().enumerate() {
            match place / (BASES.len() * SIGHTS) {
                1 => counts.denied += number,
                _ => counts.allowed += number,
            }
            match place % SIGHTS {
                0 => counts.by_host += number,
                _ => counts.by_path += number,
            }
        }
        counts
    }

    /// Each outcome and basis that can be together, and how often they were.
    pub fn by_basis(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        OUTCOMES.iter().enumerate().flat_map(move |(outcome, (word, bases))| {
            bases.iter().map(move |basis| {
                let at = BASES.iter().position(|it| it == basis).expect("it is a basis");
                let sights = [false, true].map(|seen| self.table.value(place(outcome, at, seen)));
                (*word, *basis, sights.iter().sum())
            })
        })
    }

    /// How often the way out was closed by the operator's word, by whose.
    pub fn refusals(&self) -> [(&'static str, u64); 4] {
        let of = |failure: Failure| self.failures.value(failure.place());
        [
            ("address", of(Failure::AddressProhibited)),
            ("host", of(Failure::HostProhibited)),
            ("port", self.closed_ports.load(Ordering::Relaxed)),
            ("loop", of(Failure::Loop)),
        ]
    }

    /// How often requests failed on the way to their origin, by the proxy error type of RFC 9209.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let told = Failure::PROXY_ERRORS.into_iter().zip(self.failures.values()).enumerate();
        let failed =
            told.filter(|(place, _)| !REFUSALS.iter().any(|refusal| refusal.place() == *place));
        failed.map(|(_, told)| told)
    }
}

const fn place(outcome: usize, basis: usize, path_seen: bool) -> usize {
    (outcome * BASES.len() + basis) * SIGHTS + path_seen as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_leaves_a_record_is_counted_where_it_is_told() {
        for event in [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled] {
            for reason in Reason::ALL {
                let can_be = match event {
                    Event::Denied => true,
                    Event::WouldDeny | Event::Exempted => {
                        reason.is_of_robots() || reason == Reason::Undecided
                    }
                    Event::Tunnelled => reason == Reason::PathNotSeen,
                };
                let decisions = Decisions::default();
                decisions.recorded(event, reason, true);
                let told: u64 = decisions.by_basis().map(|(_, _, count)| count).sum();
                assert_eq!(told, u64::from(can_be), "{event:?} {reason:?}");
                let is_denied = u64::from(event == Event::Denied);
                let expected = DecisionCounts {
                    allowed: 1 - is_denied,
                    denied: is_denied,
                    by_path: 1,
                    by_host: 0,
                };
                assert_eq!(decisions.counts(), expected);
            }
        }
    }

    #[test]
    fn what_is_allowed_is_told_by_its_basis() {
        let decisions = Decisions::default();
        decisions.allowed(&Basis::NoGroup, false);
        decisions.allowed(&Basis::RobotsTxtItself, true);
        let told: Vec<_> = decisions.by_basis().filter(|(_, _, count)| *count > 0).collect();
        assert_eq!(told, [("allow", "robots_txt_itself", 1), ("allow", "no_group", 1)]);
        assert_eq!(
            decisions.counts(),
            DecisionCounts { allowed: 2, by_host: 1, by_path: 1, denied: 0 }
        );
    }

    #[test]
    fn each_failure_is_told_once_and_a_prohibition_as_a_refusal() {
        let decisions = Decisions::default();
        REFUSALS.into_iter().for_each(|refusal| decisions.failed(refusal));
        decisions.port_closed();
        assert_eq!(decisions.refusals(), [("address", 1), ("host", 1), ("port", 1), ("loop", 1)]);
        assert!(decisions.failures().all(|(_, count)| count == 0));
        decisions.failed(Failure::Dns);
        decisions.failed(Failure::RequestTimeout);
        let failures: Vec<_> = decisions.failures().filter(|(_, count)| *count > 0).collect();
        assert_eq!(failures, [("dns_error", 1), ("http_request_error", 1)]);
    }
}
