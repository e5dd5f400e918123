//! The verification of the log, as a report has it.

use serde::Serialize;

use crate::audit::Head;
use crate::audit::read::verify::Findings;

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
