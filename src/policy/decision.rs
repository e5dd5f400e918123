//! Decides: policy, agent and path in; a verdict and its basis out (RFC 9309 §2.2). The basis is
//! data: the 403, the audit record, the explanation on the terminal and the tests all print the
//! same value.

mod basis;

use super::state::Policy;
use crate::robots::{
    Directive, Group, Path, RobotsTxt, Rule, Spellings, Steps, StepsExceeded, WholeSite,
};
pub use basis::{Basis, Decision, SelectedGroup, Verdict};

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
