//! Replay: makes the decision of a record again from the stored evidence. Under the profile that
//! the record names the outcome must be the same; under another it is that profile's decision.
//! [`again`] is pure; [`Replay`] reads the evidence.

mod asked;
mod count;
mod files;
mod state;

use std::sync::Arc;

use asked::Asked;
pub use count::Count;
pub use files::{MakeProfile, Replay};
use state::Unknown;

use crate::audit::evidence::CaptureRecord;
use crate::audit::limits::RECORD_TEXT_BYTES_MAX;
use crate::audit::{Group, Reason, Record, Rule, read_as_clause};
use crate::policy::decision::{HostDecision, Verdict};
use crate::policy::profile::Profile;
use crate::robots::RobotsTxt;
use crate::types::sanitize::text;

/// The evidence for a replay.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    pub profile: &'a Profile,
    /// The robots.txt that the record names, as the profile reads it.
    pub file: Option<&'a Arc<RobotsTxt>>,
    /// How the last attempt failed, if the record lacks it.
    pub failed: Option<&'a CaptureRecord>,
}

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    Same,
    Differs {
        was: Box<Answer>,
        is: Answer,
    },
    /// The reason is not robots.txt: there is nothing to decide again.
    NotOfRobots(Reason),
    /// The record lacks necessary data.
    Undecidable(String),
    /// Evidence is missing or damaged: which.
    NoEvidence(String),
}

/// An answer, as records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// On what basis, in words.
    Allowed(String),
    Disallowed {
        reason: Reason,
        group: Option<Group>,
        rule: Option<Rule>,
    },
}

/// Decides `record` again.
pub fn again(record: &Record, evidence: &Evidence<'_>) -> Replayed {
    if !record.is_of_robots() {
        return Replayed::NotOfRobots(record.reason);
    }
    match decide(record, evidence) {
        Ok(is) => {
            let was = Box::new(Answer::recorded(record));
            if *was == is { Replayed::Same } else { Replayed::Differs { was, is } }
        }
        Err(Unknown(why)) => Replayed::Undecidable(why.to_owned()),
    }
}

fn decide(record: &Record, evidence: &Evidence<'_>) -> Result<Answer, Unknown> {
    let robots = record.robots.as_ref().ok_or(Unknown("it says nothing of robots.txt"))?;
    let token = record.agent.as_deref();
    if token.is_some_and(|token| token.contains('…')) {
        return Err(Unknown("its product token was too long to be recorded as a whole"));
    }
    let state = state::state(robots, evidence.profile, evidence.file, evidence.failed)?;
    let policy = state::policy(&state, evidence.profile, record.time)?;
    let asked = Asked::of(record).map_err(Unknown)?;
    if let Asked::Beginning { because, .. } = asked
        && record.reason == Reason::Undecided
    {
        // How many steps it took depended on all of it.
        return Err(Unknown(because));
    }
    let decision =
        asked.decide(&policy, token, record.url_as_received.is_some()).map_err(Unknown)?;
    Ok(Answer::of(&decision))
}

impl Answer {
    fn recorded(record: &Record) -> Self {
        Self::Disallowed {
            reason: record.reason,
            group: record.group.clone(),
            rule: record.rule.clone(),
        }
    }

    fn of(decision: &HostDecision<'_>) -> Self {
        match decision {
            HostDecision::Mixed(group) => {
                let group = Some(Group::of(group));
                Self::Disallowed { reason: Reason::PathNotSeen, group, rule: None }
            }
            HostDecision::Whole(decision) => match decision.verdict {
                Verdict::Allow => Self::Allowed(decision.basis.to_string()),
                Verdict::Disallow => Self::Disallowed {
                    reason: Reason::of(&decision.basis),
                    group: decision.basis.group().map(Group::of),
                    rule: decision.basis.rule().map(Rule::of),
                },
            },
        }
    }

    /// Whether the request would have been let through.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// In the words of [`crate::policy::decision::Basis`].
impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Allowed(basis) => write!(f, "allowed: {basis}"),
            Self::Disallowed { rule: Some(rule), group, .. } => {
                write!(
                    f,
                    "disallowed: line {}, \"{}: {}\"",
                    rule.line, rule.directive, rule.pattern
                )?;
                f.write_str(&read_as_clause(&rule.read_as))?;
                match group {
                    Some(group) => {
                        let token = text(group.token.as_bytes(), RECORD_TEXT_BYTES_MAX);
                        write!(f, ", of the group \"{token}\" (line {})", group.line)
                    }
                    None => Ok(()),
                }
            }
            Self::Disallowed { reason, .. } => f.write_str(reason.row().replayed),
        }
    }
}
