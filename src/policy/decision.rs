//! Decides: policy, agent and path in; a verdict and its basis out (RFC 9309 §2.2). The basis is
//! data: the 403, the audit record, the explanation on the terminal and the tests all print the
//! same value.

use std::fmt;

use super::state::{Absence, AbsenceKind, Policy};
use crate::robots::{
    Directive, Group, Path, RobotsTxt, Rule, Spellings, Steps, StepsExceeded, WholeSite,
};

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
        return Decision { verdict: Verdict::Allow, basis: Basis::RobotsTxtItself };
    }
    match *policy {
        Policy::Rules(copy) => by_rules(&copy.rules, token, path_and_query),
        Policy::AllowAll(absence) => {
            Decision { verdict: Verdict::Allow, basis: Basis::of(absence) }
        }
        Policy::DisallowAll(absence) => {
            Decision { verdict: Verdict::Disallow, basis: Basis::of(absence) }
        }
    }
}

/// The decision of the file alone, by the matcher of its dialect.
#[inline]
pub fn by_rules<'a>(
    rules: &'a RobotsTxt,
    token: Option<&str>,
    path_and_query: &[u8],
) -> Decision<'a> {
    by_group(rules, rules.group(token), path_and_query)
}

/// The same for a caller that knows the applicable group of `rules`.
#[inline(always)]
pub fn by_group<'a>(
    rules: &'a RobotsTxt,
    group: Option<Group<'a>>,
    path_and_query: &[u8],
) -> Decision<'a> {
    let path = Path::new(path_and_query, rules.dialect());
    if rules.dialect().robots_txt_always_allowed && path.is_robots_txt() {
        return Decision { verdict: Verdict::Allow, basis: Basis::RobotsTxtItself };
    }
    match group {
        None => Decision { verdict: Verdict::Allow, basis: Basis::NoGroup },
        Some(group) => {
            let steps = &mut Steps::of_decision();
            let decision = by_rule(group, group.rule_within(&path, steps));
            match rules.dialect().spellings {
                Spellings::AllReadings if decision.verdict == Verdict::Allow => {
                    by_readings(group, path_and_query, steps).unwrap_or(decision)
                }
                _ => decision,
            }
        }
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

/// It depends on the rest of the path.
struct Unforeseen;

impl From<StepsExceeded> for Unforeseen {
    fn from(_: StepsExceeded) -> Self {
        Self
    }
}

/// The decision for every path that begins with `begin`; `None` if it depends on the rest. See
/// [`Group::rule_for_beginning`] for the restrictions on `begin`.
pub fn decide_beginning<'a>(
    policy: &Policy<'a>,
    token: Option<&str>,
    begin: &[u8],
) -> Option<Decision<'a>> {
    if b"/robots.txt".starts_with(begin) {
        return None;
    }
    match *policy {
        Policy::Rules(copy) => match copy.rules.group(token) {
            None => Some(Decision { verdict: Verdict::Allow, basis: Basis::NoGroup }),
            Some(group) => {
                let dialect = copy.rules.dialect();
                let decision =
                    by_rule(group, Ok(group.rule_for_beginning(&Path::new(begin, dialect))?));
                if dialect.spellings == Spellings::AsWritten
                    || decision.verdict == Verdict::Disallow
                {
                    return Some(decision);
                }
                let foresee = |path: &Path<'_>, _: &mut Steps| {
                    group.rule_for_beginning(path).ok_or(Unforeseen)
                };
                let steps = &mut Steps::of_decision();
                let rule = group.disallowed_in_any_reading(begin, steps, foresee).ok()?;
                Some(rule.map_or(decision, |rule| by_rule(group, Ok(Some(rule)))))
            }
        },
        // It holds for all paths.
        Policy::AllowAll(_) | Policy::DisallowAll(_) => Some(decide(policy, token, begin)),
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
    /// ([`Steps`]). Undecided is denied.
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
