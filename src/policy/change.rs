//! Classifies what a new robots.txt, or a new state of it, changes for the agents that it applies
//! to.
//!
//! It compares what a profile understands of two files, not their text: comments, the order of
//! groups and, where the most specific rule decides, the order of rules change nothing (RFC 9309
//! §2.2).

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::profile::{Meaning, Profile};
use super::state::{RobotsCopy, RobotsState};
use crate::robots::{Dialect, Directive, Group, Meant, Record, RobotsTxt, lines};

/// The state of a robots.txt, as far as kinds of changes distinguish it.
#[derive(Clone, Copy, Debug)]
enum Stand<'a> {
    Rules(&'a RobotsCopy),
    /// The origin states that there is none, and that allows everything.
    NoFile,
    /// It is unreachable or access to it is denied. With the earlier copy, if there is one.
    Closed(Option<&'a RobotsCopy>),
}

impl<'a> Stand<'a> {
    /// `None` if the file was never fetched.
    fn of(state: &'a RobotsState, profile: &Profile) -> Option<Self> {
        Some(match state {
            RobotsState::Unknown => return None,
            RobotsState::Successful { copy, .. } => Self::Rules(copy),
            RobotsState::Unavailable { cause, copy, .. } => match cause.meaning(profile) {
                Meaning::Unavailable => Self::NoFile,
                Meaning::Forbidden | Meaning::Unreachable => Self::Closed(copy.as_ref()),
            },
            // Nothing has changed at the origin.
            RobotsState::Unreachable(outage) if outage.cause.is_of_parent() => {
                Self::Rules(outage.copy.as_ref()?)
            }
            RobotsState::Unreachable(outage) => Self::Closed(outage.copy.as_ref()),
        })
    }
}

/// The change from `before` to `after` under `profile` for the agents with these product tokens
/// (`None`: without one), for every other agent, and for agents that the file names. `None` if
/// nothing changed, or nothing is known of `before`.
pub fn change(
    before: &RobotsState,
    after: &RobotsState,
    profile: &Profile,
    seen: &[Option<&str>],
) -> Option<Change> {
    let of = |kind, before: Option<&RobotsCopy>, after: Option<&RobotsCopy>| {
        let compared =
            compare(before.map(|copy| &*copy.rules), after.map(|copy| &*copy.rules), seen);
        Some(Change { kind, ..compared })
    };
    match (Stand::of(before, profile)?, Stand::of(after, profile)?) {
        (Stand::Rules(before), Stand::Rules(after)) if is_same_file(before, after) => None,
        (Stand::Rules(before), Stand::Rules(after)) => {
            Some(compare(Some(&before.rules), Some(&after.rules), seen))
        }
        (Stand::NoFile, Stand::Rules(after)) => of(Kind::Appeared, None, Some(after)),
        (Stand::Rules(before) | Stand::Closed(Some(before)), Stand::NoFile) => {
            of(Kind::Gone, Some(before), None)
        }
        (Stand::Rules(_) | Stand::NoFile, Stand::Closed(_)) => of(Kind::Unreadable, None, None),
        (Stand::Closed(Some(before)), Stand::Rules(after)) => {
            of(Kind::Back, Some(before), Some(after))
        }
        // The earlier content is unknown.
        (Stand::Closed(None), Stand::Rules(_) | Stand::NoFile) => of(Kind::Back, None, None),
        (Stand::NoFile, Stand::NoFile) | (Stand::Closed(_), Stand::Closed(_)) => None,
    }
}

/// Whether two copies are of one file: equal or, if one is truncated, equal as far as both reach.
/// Another size limit makes no other file.
pub fn is_same_file(one: &RobotsCopy, other: &RobotsCopy) -> bool {
    let (one, other) = (&*one.snapshot, &*other.snapshot);
    if one.sha256 == other.sha256 {
        return true;
    }
    let (shorter, longer) =
        if one.body.len() <= other.body.len() { (one, other) } else { (other, one) };
    shorter.cut && longer.body.starts_with(&shorter.body)
}

/// The change between two files for these agents and every other one; a missing file has no rules.
pub fn compare(
    before: Option<&RobotsTxt>,
    after: Option<&RobotsTxt>,
    seen: &[Option<&str>],
) -> Change {
    Comparison::new(before, after).of_agents(seen)
}

/// The kind of a change. The words are a public interface: they may be added to, never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another text of the same meaning.
    Cosmetic,
    /// Less is disallowed: all earlier rules and further `allow` rules; or some `disallow` rules
    /// removed.
    Wider,
    /// More is disallowed: all earlier rules and further `disallow` rules; or some `allow` rules
    /// removed.
    Narrower,
    /// Other rules, of which neither can be said.
    Mixed,
    /// The same rules, and other records: sitemaps, delays, request rates, content use.
    Signals,
    /// A file appeared.
    Appeared,
    /// The file disappeared.
    Gone,
    /// The file became unreachable (RFC 9309 §2.3.1.4), or access to it was denied.
    Unreadable,
    /// The file can be fetched again, or is known again not to exist.
    Back,
}

/// A change under one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub kind: Kind,
    /// The agents whose rules or records changed, as they or the file name them; `*` is every other
    /// agent. At most [`TOUCHED_MAX`].
    pub agents: Vec<String>,
}

/// The agents of a [`Change`].
pub const TOUCHED_MAX: usize = 16;

impl Kind {
    /// All variants.
    pub const ALL: [Self; 9] = [
        Self::Cosmetic,
        Self::Wider,
        Self::Narrower,
        Self::Mixed,
        Self::Signals,
        Self::Appeared,
        Self::Gone,
        Self::Unreadable,
        Self::Back,
    ];

    /// The stable word of notices and metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Mixed => "mixed",
            Self::Signals => "signals",
            Self::Appeared => "appeared",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Back => "back",
        }
    }

    /// Combines the changes of two agents in the same file: rules outweigh other records, and wider
    /// for one but narrower for the other is mixed.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (one, Self::Cosmetic) | (Self::Cosmetic, one) => one,
            (one, Self::Signals) | (Self::Signals, one) => one,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }
}

/// Lines of `after` that are not in `before`, and the reverse, with multiplicity; moved lines count
/// as neither. Blanks around a line are ignored.
pub fn line_counts(before: &[u8], after: &[u8]) -> (u64, u64) {
    let mut balance: HashMap<&[u8], i64> = HashMap::new();
    let mut count = |text, step| {
        for (_, line) in lines(text, &Dialect::RFC9309) {
            let line = line.trim_ascii();
            if !line.is_empty() {
                *balance.entry(line).or_default() += step;
            }
        }
    };
    count(after, 1);
    count(before, -1);
    let sum = |sign: i64| balance.values().map(|more| (more * sign).max(0).unsigned_abs()).sum();
    (sum(1), sum(-1))
}

/// The most rules compared, counted per agent. Those of one agent in two files of the size limit
/// are about a tenth of that.
const RULES_MAX: usize = 1 << 21;

/// The most names of a file considered. Real files have some hundreds.
const NAMES_MAX: usize = 512;

/// The name of every agent that is not named.
const DEFAULT: &str = "*";

/// Two files to compare.
struct Comparison<'a> {
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
