//! Compares two files, agent by agent.

use super::kind::{Change, Kind, TOUCHED_MAX};
use crate::robots::{Directive, Group, Meant, Record, RobotsTxt};

/// The most rules compared, counted per agent. Those of one agent in two files of the size limit
/// are about a tenth of that.
const RULES_MAX: usize = 1 << 21;

/// The most names of a file considered. Real files have some hundreds.
const NAMES_MAX: usize = 512;

/// The name of every agent that is not named.
const DEFAULT: &str = "*";

/// Two files to compare.
pub(super) struct Comparison<'a> {
    before: Option<&'a RobotsTxt>,
    after: Option<&'a RobotsTxt>,
    /// The remaining budget of rules.
    left: usize,
}

impl<'a> Comparison<'a> {
    /// Compares the file before with the file after; `None`: there was or is none.
    pub fn new(before: Option<&'a RobotsTxt>, after: Option<&'a RobotsTxt>) -> Self {
        Self { before, after, left: RULES_MAX }
    }

    /// For the `seen` agents and every other one; if nothing changed for them, for those that only
    /// the files name.
    pub fn of_agents(mut self, seen: &[Option<&str>]) -> Change {
        let mut change = Change { kind: Kind::Cosmetic, agents: Vec::new() };
        for token in [None].iter().chain(seen) {
            let kind = self.of_agent(*token).unwrap_or(Kind::Mixed);
            change.add(kind, token.unwrap_or(DEFAULT));
        }
        let is_settled = change.kind != Kind::Cosmetic;
        for name in self.names() {
            // What exceeds the budget is left out: it concerns no agent that was seen.
            let Some(kind) = self.of_agent(Some(name)) else { break };
            let of_seen = change.kind;
            change.add(kind, name);
            if is_settled {
                change.kind = of_seen;
            }
        }
        if change.kind == Kind::Cosmetic && records(self.before) != records(self.after) {
            change.kind = Kind::Signals;
        }
        change
    }

    /// `None` if it exceeds the budget.
    fn of_agent(&mut self, token: Option<&str>) -> Option<Kind> {
        let group = |file: Option<&'a RobotsTxt>| file.and_then(|file| file.group(token));
        let (before, after) = (group(self.before), group(self.after));
        let count = |group: &Option<Group<'_>>| group.as_ref().map_or(0, Group::rule_count);
        self.left = self.left.checked_sub(count(&before) + count(&after))?;
        let meant =
            |group: &Option<Group<'a>>| group.as_ref().map(Group::meant).unwrap_or_default();
        let kind = of_rules(&meant(&before), &meant(&after));
        let of_group = |group: Option<Group<'a>>| sorted(group.iter().flat_map(Group::records));
        Some(match kind {
            Kind::Cosmetic if of_group(before) != of_group(after) => Kind::Signals,
            kind => kind,
        })
    }

    /// The names in either file, up to the limit.
    fn names(&self) -> Vec<&'a str> {
        let names = |file: Option<&'a RobotsTxt>| {
            file.into_iter().flat_map(RobotsTxt::agents).take(NAMES_MAX)
        };
        let mut names: Vec<_> = names(self.before).chain(names(self.after)).collect();
        names.retain(|name| *name != DEFAULT);
        names.sort_by_key(|name| name.to_ascii_lowercase());
        names.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
        names
    }
}

impl Change {
    fn add(&mut self, kind: Kind, agent: &str) {
        self.kind = self.kind.and(kind);
        let is_listed = self.agents.iter().any(|listed| listed.eq_ignore_ascii_case(agent));
        if kind != Kind::Cosmetic && !is_listed && self.agents.len() < TOUCHED_MAX {
            self.agents.push(agent.to_owned());
        }
    }
}

/// Wider or narrower only if the rules of one are those of the other plus rules of one kind.
fn of_rules(before: &[Meant<'_>], after: &[Meant<'_>]) -> Kind {
    if before == after {
        return Kind::Cosmetic;
    }
    let added = beyond(before, after).and_then(only);
    let removed = beyond(after, before).and_then(only);
    match (added, removed) {
        (Some(Directive::Disallow), _) | (_, Some(Directive::Allow)) => Kind::Narrower,
        (Some(Directive::Allow), _) | (_, Some(Directive::Disallow)) => Kind::Wider,
        (None, None) => Kind::Mixed,
    }
}

/// The rules that `longer` has beyond `shorter`, which it must contain entirely and in the same
/// order. Sets are sorted; where the first matching rule decides, the order is part of the meaning.
fn beyond<'a, 'm>(shorter: &[Meant<'_>], longer: &'m [Meant<'a>]) -> Option<Vec<&'m Meant<'a>>> {
    let mut rest = shorter.iter().peekable();
    let further: Vec<_> =
        longer.iter().filter(|rule| rest.next_if(|next| next == rule).is_none()).collect();
    rest.peek().is_none().then_some(further)
}

/// The directive that all of them have in common.
fn only(rules: Vec<&Meant<'_>>) -> Option<Directive> {
    let first = rules.first()?.directive;
    rules.iter().all(|rule| rule.directive == first).then_some(first)
}

fn records(file: Option<&RobotsTxt>) -> Vec<(&'static str, &[u8])> {
    sorted(file.into_iter().flat_map(RobotsTxt::records))
}

fn sorted<'a>(records: impl Iterator<Item = Record<'a>>) -> Vec<(&'static str, &'a [u8])> {
    let mut records: Vec<_> = records.map(|record| (record.key, record.value)).collect();
    records.sort_unstable();
    records
}
