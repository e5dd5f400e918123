//! The rules of every group, compiled, each group in the order in which its rules decide.

use std::cmp::Reverse;
use std::ops::Range;

use super::arena::{Arena, Span, count};
use super::dialect::Precedence;
use super::head::Head;
use super::path::Path;
use super::pattern::Pattern;
use super::{Directive, Rule};

/// A rule as it is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredRule {
    pub pattern: Pattern,
    pub written: Span,
    pub line: u32,
    pub directive: Directive,
}

/// All rules of a file. Groups stay as they are written; what merges groups of one name
/// (RFC 9309 §2.2.1) is that the best of their best rules decides. So a file that lists many names
/// over many rules costs no more memory than it has lines.
#[derive(Debug, Default)]
pub(super) struct Ruleset {
    rules: Vec<StoredRule>,
    /// The head of each rule, close together: of most rules nothing else is looked at.
    heads: Vec<Head>,
    groups: Vec<Range<u32>>,
}

/// Sorts the rule that decides first.
pub(super) type Rank = (Reverse<u32>, Option<Directive>, u32);

impl Ruleset {
    /// Begins a group; further rules belong to it.
    pub(super) fn begin_group(&mut self) {
        let at = count(self.rules.len());
        self.groups.push(at..at);
    }

    /// The number of the group begun last.
    pub(super) fn last_group(&self) -> u32 {
        count(self.groups.len().saturating_sub(1))
    }

    pub(super) fn push(&mut self, rule: StoredRule) {
        self.rules.push(rule);
        if let Some(group) = self.groups.last_mut() {
            group.end = count(self.rules.len());
        }
    }

    /// To be called once, after the last rule.
    pub(super) fn sort(&mut self, precedence: Precedence, arena: &Arena) {
        for group in &self.groups {
            self.rules[group.start as usize..group.end as usize].sort_by_key(|rule| rule.rank(precedence));
        }
        self.heads = self.rules.iter().map(|rule| rule.pattern.head(arena)).collect();
        self.rules.shrink_to_fit();
        self.groups.shrink_to_fit();
    }

    /// The rules of one group, the one that decides first.
    pub(super) fn of_group(&self, group: u32) -> &[StoredRule] {
        &self.rules[self.range(group)]
    }

    /// The rule of one group that decides on `path`.
    pub(super) fn deciding(&self, group: u32, path: &Path<'_>, arena: &Arena) -> Option<&StoredRule> {
        let range = self.range(group);
        let mut rules = self.heads[range.clone()].iter().zip(&self.rules[range]);
        let decides = |(head, rule): &(&Head, &StoredRule)| {
            head.admits(path.head()) && rule.pattern.matches(path, arena)
        };
        rules.find(decides).map(|(_, rule)| rule)
    }

    fn range(&self, group: u32) -> Range<usize> {
        let range = &self.groups[group as usize];
        range.start as usize..range.end as usize
    }

    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<StoredRule>()
            + self.heads.capacity() * size_of::<Head>()
            + self.groups.capacity() * size_of::<Range<u32>>()
    }
}

impl StoredRule {
    /// RFC 9309 §2.2.2: most octets first; of equals allow, "the least restrictive". Then the first line.
    pub(super) fn rank(&self, precedence: Precedence) -> Rank {
        match precedence {
            Precedence::MostOctets => (Reverse(self.pattern.octets), Some(self.directive), self.line),
            Precedence::FirstMatch => (Reverse(0), None, self.line),
        }
    }

    pub(super) fn view<'a>(&self, arena: &'a Arena) -> Rule<'a> {
        Rule { line: self.line, directive: self.directive, pattern: arena.get(self.written) }
    }
}
