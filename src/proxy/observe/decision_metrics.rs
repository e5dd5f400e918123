//! Counts of the gate's decisions, by outcome and basis. They include decisions without a record:
//! the audit log alone does not show whether one request in ten was denied or all of them. And
//! counts of the errors of egress, which the gate sees first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::decision_log::DecisionLog;
use super::run_observer::RunObserver;
use crate::audit::{Event, Reason};
use crate::egress::Failure;
use crate::policy::decision::Basis;
use crate::robots;
use crate::runtime::counters::Counters;

/// Counters of all workers.
#[derive(Debug, Default)]
pub struct DecisionMetrics {
    /// By outcome, basis and sight, in one row: an everyday decision is one addition.
    table: Counters<{ (ALLOWING.len() + RECORDED.len() * Reason::ALL.len()) * SIGHTS }>,
    failures: Counters<{ Failure::PROXY_ERRORS.len() }>,
    closed_ports: AtomicU64,
    /// Log lines for some of the decisions.
    pub log: DecisionLog,
    /// Of a run: learns of requests that are allowed despite a denial.
    pub observer: Option<Arc<RunObserver>>,
}

/// The bases on which a request is allowed, as the label `basis` has them.
const ALLOWING: [&str; 7] = [
    "robots_txt_itself",
    "no_group",
    "no_rule",
    "rule",
    "unavailable",
    "unreachable",
    "long_unreachable",
];

/// The events that have a record. Their basis is that of the reason.
const RECORDED: [Event; 4] = [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled];

/// Errors of egress that are a rejection by the proxy.
const REFUSALS: [Failure; 3] = [Failure::AddressProhibited, Failure::HostProhibited, Failure::Loop];

/// Decisions by a path, and by a host as a whole.
const SIGHTS: usize = 2;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// Requests that were allowed.
    pub allowed: u64,
    /// Decisions on a host as a whole, where no path was seen.
    pub by_host: u64,
    /// Decisions on a path.
    pub by_path: u64,
    /// Requests answered with the denial.
    pub denied: u64,
}

impl DecisionMetrics {
    /// Metrics of a run.
    pub fn observed_by(observer: Arc<RunObserver>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Counts a request that robots.txt, or the lack of it, allows.
    pub fn count_allowed(&self, basis: &Basis<'_>, path_seen: bool) {
        let basis = match basis {
            Basis::Rules(robots::Basis::RobotsTxtItself) => 0,
            Basis::Rules(robots::Basis::NoGroup) => 1,
            Basis::Rules(robots::Basis::NoRule { .. }) => 2,
            Basis::Rules(robots::Basis::Rule { .. }) => 3,
            Basis::Unavailable(_) => 4,
            Basis::Unreachable(_) => 5,
            Basis::LongUnreachable(_) => 6,
            // Never the basis of an allowed request.
            Basis::Rules(robots::Basis::TooManySteps { .. }) => return,
        };
        self.table.add(of_allowed(basis, path_seen), 1);
    }

    /// Counts a decision with a record.
    pub fn count_recorded(&self, event: Event, reason: Reason, path_seen: bool) {
        self.table.add(of_recorded(event, reason, path_seen), 1);
    }

    /// Counts an error of egress.
    pub fn count_failure(&self, failure: Failure) {
        self.failures.add(failure.place(), 1);
    }

    /// Counts a CONNECT to a port that is not listed.
    pub fn count_closed_port(&self) {
        self.closed_ports.fetch_add(1, Ordering::Relaxed);
    }

    /// The totals.
    pub fn counts(&self) -> DecisionCounts {
        let mut counts = DecisionCounts::default();
        let denied = of_recorded(Event::Denied, Reason::ALL[0], false)
            ..of_recorded(Event::WouldDeny, Reason::ALL[0], false);
        for (place, number) in self.table.values().into_iter().enumerate() {
            if denied.contains(&place) {
                counts.denied += number;
            } else {
                counts.allowed += number;
            }
            match place % SIGHTS {
                0 => counts.by_host += number,
                _ => counts.by_path += number,
            }
        }
        counts
    }

    /// The count of each possible pair of outcome and basis.
    pub fn by_basis(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let allowed = ALLOWING.into_iter().enumerate().map(move |(at, basis)| {
            ("allow", basis, self.sum([false, true].map(|seen| of_allowed(at, seen))))
        });
        let recorded = RECORDED.into_iter().flat_map(move |event| {
            let reasons = Reason::ALL.into_iter().filter(move |reason| can_be(event, *reason));
            reasons.map(move |reason| {
                let places = [false, true].map(|seen| of_recorded(event, reason, seen));
                (outcome(event), reason.row().basis, self.sum(places))
            })
        });
        allowed.chain(recorded)
    }

    fn sum(&self, places: [usize; SIGHTS]) -> u64 {
        places.map(|place| self.table.value(place)).iter().sum()
    }

    /// How often egress was refused, by what was prohibited.
    pub fn refusals(&self) -> [(&'static str, u64); 4] {
        let of = |failure: Failure| self.failures.value(failure.place());
        [
            ("address", of(Failure::AddressProhibited)),
            ("host", of(Failure::HostProhibited)),
            ("port", self.closed_ports.load(Ordering::Relaxed)),
            ("loop", of(Failure::Loop)),
        ]
    }

    /// How often egress failed, by the proxy error type of RFC 9209 §2.3.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = Failure::PROXY_ERRORS.into_iter().zip(self.failures.values()).enumerate();
        let failed = counted
            .filter(|(place, _)| !REFUSALS.iter().any(|rejection| rejection.place() == *place));
        failed.map(|(_, failure)| failure)
    }
}

/// The label `decision` of a recorded decision.
const fn outcome(event: Event) -> &'static str {
    match event {
        Event::Denied => "deny",
        Event::WouldDeny => "would_deny",
        Event::Exempted => "exempted",
        Event::Tunnelled => "tunnelled",
    }
}

/// Whether a record may have both.
fn can_be(event: Event, reason: Reason) -> bool {
    match event {
        Event::Denied => reason.can_deny(),
        Event::WouldDeny | Event::Exempted => reason.row().can_be_waived,
        Event::Tunnelled => matches!(reason, Reason::PathNotSeen | Reason::Reach),
    }
}

const fn of_allowed(basis: usize, path_seen: bool) -> usize {
    basis * SIGHTS + path_seen as usize
}

const fn of_recorded(event: Event, reason: Reason, path_seen: bool) -> usize {
    let row = ALLOWING.len() + event as usize * Reason::ALL.len() + reason as usize;
    row * SIGHTS + path_seen as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_leaves_a_record_is_counted_where_it_is_told() {
        for event in [Event::Denied, Event::WouldDeny, Event::Exempted, Event::Tunnelled] {
            for reason in Reason::ALL {
                let can_be = match event {
                    Event::Denied => reason != Reason::Reach,
                    Event::WouldDeny | Event::Exempted => {
                        reason.is_of_robots() || reason == Reason::Undecided
                    }
                    Event::Tunnelled => [Reason::PathNotSeen, Reason::Reach].contains(&reason),
                };
                let decisions = DecisionMetrics::default();
                decisions.count_recorded(event, reason, true);
                let counted: u64 = decisions.by_basis().map(|(_, _, count)| count).sum();
                assert_eq!(counted, u64::from(can_be), "{event:?} {reason:?}");
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
        let decisions = DecisionMetrics::default();
        decisions.count_allowed(&Basis::Rules(robots::Basis::NoGroup), false);
        decisions.count_allowed(&Basis::Rules(robots::Basis::RobotsTxtItself), true);
        let counted: Vec<_> = decisions.by_basis().filter(|(_, _, count)| *count > 0).collect();
        assert_eq!(counted, [("allow", "robots_txt_itself", 1), ("allow", "no_group", 1)]);
        assert_eq!(
            decisions.counts(),
            DecisionCounts { allowed: 2, by_host: 1, by_path: 1, denied: 0 }
        );
    }

    #[test]
    fn each_failure_is_told_once_and_a_prohibition_as_a_refusal() {
        let decisions = DecisionMetrics::default();
        REFUSALS.into_iter().for_each(|rejection| decisions.count_failure(rejection));
        decisions.count_closed_port();
        assert_eq!(decisions.refusals(), [("address", 1), ("host", 1), ("port", 1), ("loop", 1)]);
        assert!(decisions.failures().all(|(_, count)| count == 0));
        decisions.count_failure(Failure::Dns);
        decisions.count_failure(Failure::RequestTimeout);
        let failures: Vec<_> = decisions.failures().filter(|(_, count)| *count > 0).collect();
        assert_eq!(failures, [("dns_error", 1), ("http_request_error", 1)]);
    }
}
