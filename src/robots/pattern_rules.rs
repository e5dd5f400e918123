//! The rules that are more than a prefix: with wildcards, with an anchor, or with two forms.

use std::ops::Range;

use super::arena::Arena;
use super::dialect::Precedence;
use super::head::Head;
use super::path::Path;
use super::ruleset::StoredRule;

/// Each group's in the order in which they decide.
#[derive(Debug, Default)]
pub(super) struct PatternRules {
    rules: Vec<StoredRule>,
    /// The head of each rule, close together: of most rules nothing else is looked at.
    heads: Box<[Head]>,
}

impl PatternRules {
    pub(super) fn push(&mut self, rule: StoredRule) {
        self.rules.push(rule);
    }

    /// How many rules there are.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules of one group, the one that decides first.
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
    }

    /// The rule of one group that decides on `path`, if it comes before `other`.
    #[inline]
    pub(super) fn deciding_before(
        &self,
        other: Option<&StoredRule>,
        group: Range<usize>,
        path: &Path<'_>,
        precedence: Precedence,
        arena: &Arena,
    ) -> Option<&StoredRule> {
        let rules = self.heads[group.clone()].iter().zip(&self.rules[group]);
        let admitted = rules.filter(|(head, _)| head.admits(path.head())).map(|(_, rule)| rule);
        let comes_before =
            |rule: &&StoredRule| other.is_none_or(|other| rule.rank(precedence) < other.rank(precedence));
        admitted.take_while(comes_before).find(|rule| rule.pattern.matches(path, arena))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<StoredRule>() + size_of_val(&*self.heads)
    }
}
