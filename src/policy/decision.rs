//! Decides: policy, agent and path in; a verdict and its basis out (RFC 9309 §2.2). The basis is
//! data: the 403, the audit record, the explanation on the terminal and the tests all print the
//! same value.

use std::fmt;

use super::state::{Absence, AbsenceKind, Policy};
use crate::robots::{self, Rule, WholeSite};
pub use crate::robots::{SelectedGroup, Verdict};

/// The decision for a whole host, without a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostDecision<'a> {
    /// It holds for every path.
    Whole(Decision<'a>),
    /// Some paths are disallowed to this group, and some are not.
    Mixed(SelectedGroup<'a>),
}

/// The decision for an agent that connects to a host without revealing a path. Ignores that
/// /robots.txt itself is always allowed.
pub fn decide_host<'a>(policy: &Policy<'a>, token: Option<&str>) -> HostDecision<'a> {
    if let Policy::Rules(copy) = *policy
        && let Some(group) = copy.rules.group(token)
        && group.whole_site() == WholeSite::Mixed
    {
        return HostDecision::Mixed(SelectedGroup { name: group.name(), line: group.line() });
    }
    // All paths have the same decision, so any one does.
    HostDecision::Whole(decide(policy, token, b"/"))
}

/// Decides whether an agent (its product token, if it has one) may fetch `path_and_query`.
pub fn decide<'a>(policy: &Policy<'a>, token: Option<&str>, path_and_query: &[u8]) -> Decision<'a> {
    // First of all: the robots.txt itself may always be fetched.
    if path_and_query == b"/robots.txt" {
        let basis = Basis::Rules(robots::Basis::RobotsTxtItself);
        return Decision { verdict: Verdict::Allow, basis };
    }
    match *policy {
        Policy::Rules(copy) => copy.rules.decide(token, path_and_query).into(),
        Policy::AllowAll(absence) => {
            Decision { verdict: Verdict::Allow, basis: Basis::of(absence) }
        }
        Policy::DisallowAll(absence) => {
            Decision { verdict: Verdict::Disallow, basis: Basis::of(absence) }
        }
    }
}

/// The decision for every path that begins with `begin`; `None` if it depends on the rest. See
/// [`robots::Group::rule_for_beginning`] for the restrictions on `begin`.
pub fn decide_beginning<'a>(
    policy: &Policy<'a>,
    token: Option<&str>,
    begin: &[u8],
) -> Option<Decision<'a>> {
    if b"/robots.txt".starts_with(begin) {
        return None;
    }
    match *policy {
        Policy::Rules(copy) => copy.rules.decide_beginning(token, begin).map(Decision::from),
        // It holds for all paths.
        Policy::AllowAll(_) | Policy::DisallowAll(_) => Some(decide(policy, token, begin)),
    }
}

/// A verdict, and the basis by which it can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    pub verdict: Verdict,
    pub basis: Basis<'a>,
}

/// The basis of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis<'a> {
    /// What the file says, or that it may be fetched.
    Rules(robots::Basis<'a>),
    /// There is no robots.txt (§2.3.1.3), or access to it is denied.
    Unavailable(Absence<'a>),
    /// It is unreachable (§2.3.1.4).
    Unreachable(Absence<'a>),
    /// It has been unreachable for so long that the profile's rule for that applies.
    LongUnreachable(Absence<'a>),
}

impl<'a> From<robots::Decision<'a>> for Decision<'a> {
    #[inline]
    fn from(decision: robots::Decision<'a>) -> Self {
        Self { verdict: decision.verdict, basis: Basis::Rules(decision.basis) }
    }
}

impl<'a> Basis<'a> {
    const fn of(absence: Absence<'a>) -> Self {
        match absence.kind {
            AbsenceKind::Unavailable => Self::Unavailable(absence),
            AbsenceKind::Unreachable => Self::Unreachable(absence),
            AbsenceKind::LongUnreachable => Self::LongUnreachable(absence),
        }
    }

    /// The stable word in JSON output.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Rules(basis) => basis.word(),
            Self::Unavailable(_) => "unavailable",
            Self::Unreachable(_) => "unreachable",
            Self::LongUnreachable(_) => "long_unreachable",
        }
    }

    /// The rule that decided, if one did.
    pub const fn rule(&self) -> Option<&Rule<'a>> {
        match self {
            Self::Rules(basis) => basis.rule(),
            _ => None,
        }
    }

    /// The group that decided, if one did.
    pub const fn group(&self) -> Option<&SelectedGroup<'a>> {
        match self {
            Self::Rules(basis) => basis.group(),
            _ => None,
        }
    }

    /// Why there were no rules, if there were none.
    pub const fn absence(&self) -> Option<&Absence<'a>> {
        match self {
            Self::Unavailable(absence)
            | Self::Unreachable(absence)
            | Self::LongUnreachable(absence) => Some(absence),
            _ => None,
        }
    }
}

/// A clause that a site owner can verify: "line 3, Disallow: /private/, applies to …".
impl fmt::Display for Basis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rules(basis) => basis.fmt(f),
            Self::Unavailable(absence) => write!(f, "there is no robots.txt: {}", absence.cause),
            Self::Unreachable(absence) => {
                write!(f, "the robots.txt cannot be had: {}", absence.cause)
            }
            Self::LongUnreachable(absence) => {
                let days = absence.lasting.as_secs() / (24 * 60 * 60);
                write!(f, "the robots.txt could not be had for {days} days: {}", absence.cause)
            }
        }
    }
}
