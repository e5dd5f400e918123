//! The verdict of a file on one path, and its basis. The basis is data: whatever explains a verdict
//! to people or to a log prints the same value.

use std::fmt;

use super::arena::{Steps, StepsExceeded};
use super::dialect::{Dialect, Spellings};
use super::group::Group;
use super::path::Path;
use super::rule::{Directive, Rule};

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Disallow,
}

/// A verdict, and the basis by which it can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// Whether the path may be requested.
    pub verdict: Verdict,
    /// Why.
    pub basis: Basis<'a>,
}

/// The basis of a verdict. Its `Display` is a clause that a site owner can verify: `line 3,
/// "Disallow: /private/", of the group "*" (line 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis<'a> {
    /// The robots.txt itself is always allowed (RFC 9309 §2.2.2).
    RobotsTxtItself,
    /// No group names the agent, and there is none for `*` (RFC 9309 §2.2.1): allowed.
    NoGroup,
    /// No rule of the agent's group matches the path (RFC 9309 §2.2.2): allowed.
    NoRule {
        /// The agent's group.
        group: SelectedGroup<'a>,
    },
    /// The most specific rule that matches.
    Rule {
        /// That rule, with its line.
        rule: Rule<'a>,
        /// The group that it is of.
        group: SelectedGroup<'a>,
    },
    /// To find the deciding rule would take more than [`STEPS_MAX`](super::STEPS_MAX) steps.
    /// Undecided is disallowed.
    TooManySteps {
        /// The agent's group.
        group: SelectedGroup<'a>,
    },
}

/// A group, by the name and the line that selected it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedGroup<'a> {
    /// The product token as written in the file, or `*`.
    pub name: &'a str,
    /// The user-agent line, 1-based.
    pub line: u32,
}

/// The decision of the file that `group` is of on a path; see `RobotsTxt::decide`.
#[inline(always)]
pub(super) fn decide<'a>(
    dialect: &Dialect,
    group: Option<Group<'a>>,
    path_and_query: &[u8],
) -> Decision<'a> {
    let path = Path::new(path_and_query, dialect);
    if dialect.robots_txt_always_allowed && path.is_robots_txt() {
        return Decision { verdict: Verdict::Allow, basis: Basis::RobotsTxtItself };
    }
    match group {
        None => Decision { verdict: Verdict::Allow, basis: Basis::NoGroup },
        Some(group) => {
            let steps = &mut Steps::of_decision();
            let decision = by_rule(group, group.rule_within(&path, steps));
            match dialect.spellings {
                Spellings::AllReadings if decision.verdict == Verdict::Allow => {
                    by_readings(group, path_and_query, steps).unwrap_or(decision)
                }
                _ => decision,
            }
        }
    }
}

/// The same for every path that begins with `begin`; see `RobotsTxt::decide_beginning`.
pub(super) fn decide_beginning<'a>(
    dialect: &Dialect,
    group: Option<Group<'a>>,
    begin: &[u8],
) -> Option<Decision<'a>> {
    let Some(group) = group else {
        return Some(Decision { verdict: Verdict::Allow, basis: Basis::NoGroup });
    };
    let decision = by_rule(group, Ok(group.rule_for_beginning(&Path::new(begin, dialect))?));
    if dialect.spellings == Spellings::AsWritten || decision.verdict == Verdict::Disallow {
        return Some(decision);
    }
    let foresee = |path: &Path<'_>, _: &mut Steps| group.rule_for_beginning(path).ok_or(Unforeseen);
    let steps = &mut Steps::of_decision();
    let rule = group.disallowed_in_any_reading(begin, steps, foresee).ok()?;
    Some(rule.map_or(decision, |rule| by_rule(group, Ok(Some(rule)))))
}

/// It depends on the rest of the path.
struct Unforeseen;

impl From<StepsExceeded> for Unforeseen {
    fn from(_: StepsExceeded) -> Self {
        Self
    }
}

/// The denial that follows from another reading of a path that is allowed as written.
#[cold]
fn by_readings<'a>(
    group: Group<'a>,
    path_and_query: &[u8],
    steps: &mut Steps,
) -> Option<Decision<'a>> {
    let decide = |path: &Path<'_>, steps: &mut Steps| group.rule_within(path, steps);
    let rule: Result<_, StepsExceeded> =
        group.disallowed_in_any_reading(path_and_query, steps, decide);
    match rule {
        Ok(None) => None,
        rule => Some(by_rule(group, rule)),
    }
}

#[inline]
fn by_rule<'a>(group: Group<'a>, rule: Result<Option<Rule<'a>>, StepsExceeded>) -> Decision<'a> {
    let group = SelectedGroup { name: group.name(), line: group.line() };
    let Ok(rule) = rule else {
        return Decision { verdict: Verdict::Disallow, basis: Basis::TooManySteps { group } };
    };
    let verdict = match rule.map(|rule| rule.directive) {
        None | Some(Directive::Allow) => Verdict::Allow,
        Some(Directive::Disallow) => Verdict::Disallow,
    };
    let basis = rule.map_or(Basis::NoRule { group }, |rule| Basis::Rule { rule, group });
    Decision { verdict, basis }
}

impl<'a> Basis<'a> {
    /// A stable word for JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::RobotsTxtItself => "robots_txt_itself",
            Self::NoGroup => "no_group",
            Self::NoRule { .. } => "no_rule",
            Self::Rule { .. } => "rule",
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
            Self::RobotsTxtItself | Self::NoGroup => None,
        }
    }
}

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
            Self::TooManySteps { group } => write!(
                f,
                "the rules of the group \"{}\" (line {}) take too many steps for this URL",
                group.name, group.line
            ),
        }
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
