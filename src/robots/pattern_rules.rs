//! Rules that are more than a prefix: with wildcards, with an anchor, or with two forms.

use std::ops::Range;

use super::arena::Arena;
use super::dialect::Precedence;
use super::head::Head;
use super::lookup::Lookup;
use super::needles::Needles;
use super::rule::StoredRule;
use super::steps::StepsExceeded;

/// Each group's rules in the order in which they decide.
#[derive(Debug, Default)]
pub(super) struct PatternRules {
    rules: Vec<StoredRule>,
    /// The prefix key of each rule in one array: for most rules nothing else is read.
    heads: Box<[Head]>,
    /// Built only for many rules.
    needles: Option<Box<Needles>>,
}

impl PatternRules {
    pub(super) fn push(&mut self, rule: StoredRule) {
        self.rules.push(rule);
    }

    /// The number of rules.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules of one group, the deciding one first.
    pub(super) fn of_group(&self, group: Range<usize>) -> &[StoredRule] {
        &self.rules[group]
    }

    /// To be called after the last rule.
    pub(super) fn sort(
        &mut self,
        groups: impl Iterator<Item = Range<usize>>,
        precedence: Precedence,
        arena: &Arena,
    ) {
        self.rules.shrink_to_fit();
        groups.for_each(|group| self.rules[group].sort_by_key(|rule| rule.rank(precedence)));
        self.heads = self.rules.iter().map(|rule| rule.pattern.head(arena)).collect();
        self.needles = Needles::of(&self.rules, arena).map(Box::new);
    }

    /// The rule of one group that decides on `path`, if it takes precedence over `other`.
    #[inline]
    pub(super) fn deciding_before(
        &self,
        other: Option<&StoredRule>,
        group: Range<usize>,
        lookup: &mut Lookup<'_>,
        precedence: Precedence,
        arena: &Arena,
    ) -> Result<Option<&StoredRule>, StepsExceeded> {
        let path = lookup.path;
        for (place, head) in group.clone().zip(&self.heads[group]) {
            if !head.admits(path.head()) {
                continue;
            }
            let rule = &self.rules[place];
            if other.is_some_and(|other| other.rank(precedence) <= rule.rank(precedence)) {
                break;
            }
            if rule.pattern.may_match(path)
                && !self.refuses(place, lookup)?
                && rule.pattern.matches_in_full(path, arena, lookup.steps)?
            {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }

    /// Whether a rule cannot match, because the path lacks a literal of it.
    fn refuses(&self, place: usize, lookup: &mut Lookup<'_>) -> Result<bool, StepsExceeded> {
        let Some(needles) = &self.needles else { return Ok(false) };
        let occurring = lookup.occurring(needles)?;
        Ok(occurring.is_some_and(|occurring| needles.refuses(place, occurring)))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<StoredRule>()
            + size_of_val(&*self.heads)
            + self.needles.as_ref().map_or(0, |needles| size_of::<Needles>() + needles.heap_bytes())
    }
}
