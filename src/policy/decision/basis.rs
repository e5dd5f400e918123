//! A decision as data: the verdict, and the basis by which it can be checked.

use std::fmt;

use crate::policy::state::{Absence, AbsenceKind};
use crate::robots::{Directive, Rule};

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Disallow,
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
    /// The robots.txt itself is always allowed (RFC 9309 §2.2.2).
    RobotsTxtItself,
    /// No group names the agent, and there is none for `*` (§2.2.1).
    NoGroup,
    /// No rule of the agent's group matches the path (§2.2.2).
    NoRule { group: SelectedGroup<'a> },
    /// The most specific rule that matches.
    Rule { rule: Rule<'a>, group: SelectedGroup<'a> },
    /// There is no robots.txt (§2.3.1.3), or access to it is denied.
    Unavailable(Absence<'a>),
    /// It is unreachable (§2.3.1.4).
    Unreachable(Absence<'a>),
    /// It has been unreachable for so long that the profile's rule for that applies.
    LongUnreachable(Absence<'a>),
    /// To find the deciding rule would take more steps than a decision may
    /// ([`Steps`](crate::robots::Steps)). Undecided is denied.
    TooManySteps { group: SelectedGroup<'a> },
}

/// A group, by the name and the line that selected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedGroup<'a> {
    /// The product token as written in the file, or `*`.
    pub name: &'a str,
    /// The user-agent line, 1-based.
    pub line: u32,
}

impl<'a> Basis<'a> {
    pub(super) const fn of(absence: Absence<'a>) -> Self {
        match absence.kind {
            AbsenceKind::Unavailable => Self::Unavailable(absence),
            AbsenceKind::Unreachable => Self::Unreachable(absence),
            AbsenceKind::LongUnreachable => Self::LongUnreachable(absence),
        }
    }

    /// The stable word in JSON output.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::RobotsTxtItself => "robots_txt_itself",
            Self::NoGroup => "no_group",
            Self::NoRule { .. } => "no_rule",
            Self::Rule { .. } => "rule",
            Self::Unavailable(_) => "unavailable",
            Self::Unreachable(_) => "unreachable",
            Self::LongUnreachable(_) => "long_unreachable",
            Self::TooManySteps { .. } => "undecided",
        }
    }

    /// The rule that decided, if one did.
    pub const fn rule(&self) -> Option<&Rule<'a>> {
        match self {
            Self::Rule { rule, .. } => Some(rule),
            _ => None,
        }
    }

    /// The group that decided, if one did.
    pub const fn group(&self) -> Option<&SelectedGroup<'a>> {
        match self {
            Self::Rule { group, .. } | Self::NoRule { group } | Self::TooManySteps { group } => {
                Some(group)
            }
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
            Self::RobotsTxtItself => f.write_str("a robots.txt may always be fetched"),
            Self::NoGroup => f.write_str("no group of the robots.txt applies"),
            Self::NoRule { group } => {
                write!(f, "no rule of the group \"{}\" (line {}) matches", group.name, group.line)
            }
            Self::Rule { rule, group } => {
                write!(
                    f,
                    "line {}, \"{}: {}\", of the group \"{}\" (line {})",
                    rule.line,
                    rule.directive,
                    rule.pattern.escape_ascii(),
                    group.name,
                    group.line
                )?;
                if rule.read_as.is_as_written() {
                    Ok(())
                } else {
                    write!(f, ", for the URL read as {}", rule.read_as)
                }
            }
            Self::Unavailable(absence) => write!(f, "there is no robots.txt: {}", absence.cause),
            Self::Unreachable(absence) => {
                write!(f, "the robots.txt cannot be had: {}", absence.cause)
            }
            Self::LongUnreachable(absence) => {
                let days = absence.lasting.as_secs() / (24 * 60 * 60);
                write!(f, "the robots.txt could not be had for {days} days: {}", absence.cause)
            }
            Self::TooManySteps { group } => write!(
                f,
                "the rules of the group \"{}\" (line {}) take too many steps for this URL",
                group.name, group.line
            ),
        }
    }
}

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "Allow",
            Self::Disallow => "Disallow",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "allow",
            Self::Disallow => "disallow",
        })
    }
}
