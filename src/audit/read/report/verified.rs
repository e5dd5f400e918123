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
}

impl Verified {
    /// The summary of a verification, beside the heads that were published.
    pub fn of(findings: &Findings, published: &[Head]) -> Self {
        let faults = &findings.faults;
        Self {
            holds: faults.count == 0,
            fault_count: faults.count,
            first_fault: faults.described.first().map(ToString::to_string),
            head: findings.head.clone(),
            published_heads: published.len() as u64,
        }
    }

    /// Of several logs: whether all hold. Only one has a head.
    pub fn together(each: Vec<Self>) -> Self {
        let is_alone = each.len() == 1;
        let none =
            Self { holds: true, fault_count: 0, first_fault: None, head: None, published_heads: 0 };
        each.into_iter().fold(none, |all, one| Self {
            holds: all.holds && one.holds,
            fault_count: all.fault_count.saturating_add(one.fault_count),
            first_fault: all.first_fault.or(one.first_fault),
            head: one.head.filter(|_| is_alone),
            published_heads: one.published_heads,
        })
    }
}
