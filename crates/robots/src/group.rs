//! The group that applies to a crawler, and its rule that decides on a path.

use super::arena::{Arena, Steps, StepsExceeded};
use super::dialect::{Dialect, Precedence};
use super::lookup::Lookup;
use super::notes::{Notes, Record};
use super::pace::Paces;
use super::path::Path;
use super::readings::{Mended, readings};
use super::rule::{Directive, Meant, Rule};
use super::ruleset::Ruleset;
use super::select::{Naming, Namings};

/// The group that applies to a crawler; several of one name are one group (RFC 9309 §2.2.1). A
/// view.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    parsed: &'a Parsed,
    first: Naming,
    namings: &'a [Naming],
}

/// Whether all paths of a site have the same decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WholeSite {
    /// No path is disallowed.
    Allowed,
    /// No path is allowed, except for `/robots.txt` itself.
    Disallowed,
    /// It depends on the path, or cannot be determined without one.
    Mixed,
}

impl<'a> Group<'a> {
    #[inline]
    pub(super) fn new(parsed: &'a Parsed, namings: &'a [Naming]) -> Option<Group<'a>> {
        Some(Group { parsed, first: *namings.first()?, namings })
    }

    /// Its first name, which identifies it in its file.
    #[inline]
    pub(super) fn first(&self) -> &Naming {
        &self.first
    }

    /// The product token as written in the file, or `*`.
    #[inline]
    pub fn name(&self) -> &'a str {
        self.parsed.namings.name(&self.first)
    }

    /// The number of the first user-agent line with that name, from 1.
    pub fn line(&self) -> u32 {
        self.first.line
    }

    /// The rule that decides on `path`: the most specific one that matches (RFC 9309 §2.2.2), or
    /// the first, depending on the dialect. `None`: no rule matches, so the path is allowed.
    ///
    /// The number of steps is unbounded; see [`Group::rule_within`] for a bound.
    pub fn rule_for(&self, path: &Path<'_>) -> Option<Rule<'a>> {
        self.rule_within(path, &mut Steps::without_bound()).unwrap_or_default()
    }

    /// The same, with a limit of steps.
    ///
    /// # Errors
    ///
    /// [`StepsExceeded`]: the limit was reached before the deciding rule was found.
    #[inline(always)]
    pub fn rule_within(
        &self,
        path: &Path<'_>,
        steps: &mut Steps,
    ) -> Result<Option<Rule<'a>>, StepsExceeded> {
        let Parsed { arena, dialect, .. } = self.parsed;
        let rules = self.parsed.rules_for(path);
        let precedence = dialect.precedence;
        let mut lookup = Lookup::new(path, steps);
        let mut of_group =
            |naming: &Naming| rules.deciding(naming.group, &mut lookup, precedence, arena);
        let rule = match self.namings {
            [one] => of_group(one)?,
            several => {
                let mut best = None;
                for naming in several {
                    let found = [best, of_group(naming)?].into_iter().flatten();
                    best = found.min_by_key(|rule| rule.rank(precedence));
                }
                best
            }
        };
        Ok(rule.map(|rule| rule.view(arena)))
    }

    /// The first rule that disallows `path_and_query` according to `decide`, in the readings of the
    /// dialect besides the written one ([`Spellings`](super::Spellings)). An error of `decide` ends
    /// the search.
    ///
    /// # Errors
    ///
    /// [`StepsExceeded`], of this or of `decide`.
    pub fn disallowed_in_any_reading<U>(
        &self,
        path_and_query: &[u8],
        steps: &mut Steps,
        decide: impl Fn(&Path<'_>, &mut Steps) -> Result<Option<Rule<'a>>, U>,
    ) -> Result<Option<Rule<'a>>, U>
    where
        U: From<StepsExceeded>,
    {
        let Parsed { folded, dialect, .. } = self.parsed;
        let disallows = |rule: &Rule<'_>| rule.directive == Directive::Disallow;
        for Mended { reading, path_and_query } in readings(path_and_query, dialect, steps)? {
            let path = Path::new(&path_and_query, dialect);
            if !reading.is_as_written()
                && let Some(rule) = decide(&path, steps)?.filter(disallows)
            {
                return Ok(Some(Rule { read_as: reading, ..rule }));
            }
            if (folded.is_some() || path.has_upper())
                && let Some(rule) = decide(&path.folded(), steps)?.filter(disallows)
            {
                return Ok(Some(Rule { read_as: reading.ignoring_case(), ..rule }));
            }
        }
        Ok(None)
    }

    /// The rule that decides on every path that begins with `begin`; the inner `None`: no rule
    /// does. The outer `None`: it depends on the rest of the path. `begin` must not end within a
    /// percent-encoding, and no dot segment may follow it.
    pub fn rule_for_beginning(&self, begin: &Path<'_>) -> Option<Option<Rule<'a>>> {
        let Parsed { arena, dialect, .. } = self.parsed;
        let rules = self.parsed.rules_for(begin);
        let mut all: Vec<_> =
            self.namings.iter().flat_map(|naming| rules.of_group(naming.group)).collect();
        all.sort_by_key(|rule| rule.rank(dialect.precedence));
        for rule in all {
            if rule.pattern.foresees(begin, arena)? {
                return Some(Some(rule.view(arena)));
            }
        }
        Some(None)
    }

    /// The number of its rules.
    pub fn rule_count(&self) -> usize {
        self.namings.iter().map(|naming| self.parsed.rules.of_group(naming.group).count()).sum()
    }

    /// The meaning of its rules: two groups with equal results decide alike on every path. Sorted
    /// and deduplicated, unless the first matching rule decides: then in the order of the lines.
    pub fn meant(&self) -> Vec<Meant<'a>> {
        let Parsed { arena, dialect, rules, .. } = self.parsed;
        let mut all: Vec<_> =
            self.namings.iter().flat_map(|naming| rules.of_group(naming.group)).collect();
        match dialect.precedence {
            Precedence::FirstMatch => {
                all.sort_by_key(|rule| rule.line);
                all.into_iter().map(|rule| rule.meant(arena)).collect()
            }
            Precedence::MostBytes => {
                let mut meant: Vec<_> = all.into_iter().map(|rule| rule.meant(arena)).collect();
                meant.sort_unstable();
                meant.dedup();
                meant
            }
        }
    }

    /// The records other than rules that follow a user-agent line with its name, such as
    /// `crawl-delay`.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        self.parsed.notes.records_after(self.namings, &self.parsed.arena)
    }

    /// Whether every path has the same decision.
    pub fn whole_site(&self) -> WholeSite {
        let rules =
            || self.namings.iter().flat_map(|naming| self.parsed.rules.of_group(naming.group));
        if rules().all(|rule| rule.directive == Directive::Allow) {
            WholeSite::Allowed
        } else if rules().all(|rule| rule.directive == Directive::Disallow)
            && rules().any(|rule| rule.pattern.matches_everything())
        {
            WholeSite::Disallowed
        } else {
            WholeSite::Mixed
        }
    }
}

/// The rules and notes of a file, and the dialect that they were parsed in.
#[derive(Debug)]
pub(super) struct Parsed {
    pub dialect: Dialect,
    pub arena: Arena,
    pub namings: Namings,
    pub rules: Ruleset,
    /// The rules in lower case, if the dialect needs them and they differ.
    pub folded: Option<Box<Ruleset>>,
    pub notes: Notes,
    pub paces: Paces,
}

impl Parsed {
    /// The rules to compare `path` with.
    #[inline]
    pub(super) fn rules_for(&self, path: &Path<'_>) -> &Ruleset {
        match &self.folded {
            Some(folded) if path.is_folded() => folded,
            _ => &self.rules,
        }
    }

    /// Its approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Parsed>()
            + self.arena.capacity()
            + self.namings.heap_bytes()
            + self.rules.heap_bytes()
            + self.folded.as_ref().map_or(0, |folded| size_of_val(&**folded) + folded.heap_bytes())
            + self.notes.heap_bytes()
            + self.paces.heap_bytes()
    }
}
