//! The compiled rules of every group.

use std::ops::Range;

use super::arena::{Arena, StepsExceeded, count};
use super::dialect::{Dialect, Precedence};
use super::lookup::Lookup;
use super::pattern_rules::{PatternRules, PrefixRules};
use super::rule::StoredRule;

/// All rules of a file. Groups stay as they are written; groups of one name are merged (RFC 9309
/// §2.2.1) by letting the best of their best rules decide. So a file that lists many names over
/// many rules takes no more memory than it has lines.
#[derive(Debug, Default)]
pub(super) struct Ruleset {
    prefixes: PrefixRules,
    patterns: PatternRules,
    groups: Vec<GroupRules>,
}

/// The ranges of one group's rules.
#[derive(Clone, Copy, Debug)]
struct GroupRules {
    /// The second bytes of paths that a rule may match: one bit for all bytes that share their low
    /// six bits.
    second_bytes: u64,
    prefixes: (u32, u32),
    patterns: (u32, u32),
}

impl Ruleset {
    /// Begins a group; further rules belong to it.
    pub(super) fn begin_group(&mut self) {
        let (prefixes, patterns) = (count(self.prefixes.len()), count(self.patterns.len()));
        self.groups.push(GroupRules {
            second_bytes: 0,
            prefixes: (prefixes, prefixes),
            patterns: (patterns, patterns),
        });
    }

    /// The number of the group begun last.
    pub(super) fn last_group(&self) -> u32 {
        count(self.groups.len().saturating_sub(1))
    }

    pub(super) fn push(&mut self, rule: StoredRule, arena: &Arena) {
        let second_bytes =
            rule.pattern.second_byte(arena).map_or(u64::MAX, |byte| 1 << (byte & 63));
        if rule.pattern.is_prefix() {
            self.prefixes.push(rule);
        } else {
            self.patterns.push(rule);
        }
        if let Some(group) = self.groups.last_mut() {
            group.second_bytes |= second_bytes;
            (group.prefixes.1, group.patterns.1) =
                (count(self.prefixes.len()), count(self.patterns.len()));
        }
    }

    /// To be called once, after the last rule.
    pub(super) fn sort(&mut self, precedence: Precedence, arena: &Arena) {
        self.groups.shrink_to_fit();
        self.prefixes.sort(self.groups.iter().map(GroupRules::prefixes), precedence, arena);
        self.patterns.sort(self.groups.iter().map(GroupRules::patterns), precedence, arena);
    }

    /// The same rules in lower case, sorted; `None` if they are in lower case already.
    pub(super) fn folded(&self, dialect: &Dialect, arena: &mut Arena) -> Option<Ruleset> {
        let has_upper =
            |rule: &StoredRule| rule.pattern.text(arena).iter().any(u8::is_ascii_uppercase);
        let groups = || 0..count(self.groups.len());
        groups().flat_map(|group| self.of_group(group)).any(has_upper).then(|| {
            let mut folded = Ruleset::default();
            for group in groups() {
                folded.begin_group();
                for rule in self.of_group(group) {
                    let pattern = rule.pattern.folded(arena, dialect);
                    folded.push(StoredRule { pattern, ..*rule }, arena);
                }
            }
            folded.sort(dialect.precedence, arena);
            folded
        })
    }

    /// The rules of one group.
    pub(super) fn of_group(&self, group: u32) -> impl Iterator<Item = &StoredRule> {
        let group = &self.groups[group as usize];
        self.prefixes
            .of_group(group.prefixes())
            .iter()
            .chain(self.patterns.of_group(group.patterns()))
    }

    /// The rule of one group that decides on the path.
    #[inline(always)]
    pub(super) fn deciding(
        &self,
        group: u32,
        lookup: &mut Lookup<'_>,
        precedence: Precedence,
        arena: &Arena,
    ) -> Result<Option<&StoredRule>, StepsExceeded> {
        let group = &self.groups[group as usize];
        if !group.may_match(lookup.path.head()) {
            return Ok(None);
        }
        let prefix = self.prefixes.deciding(group.prefixes(), lookup.path, arena);
        if group.patterns.0 == group.patterns.1 {
            return Ok(prefix);
        }
        let pattern =
            self.patterns.deciding_before(prefix, group.patterns(), lookup, precedence, arena)?;
        Ok(pattern.or(prefix))
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len() + self.patterns.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.prefixes.heap_bytes()
            + self.patterns.heap_bytes()
            + self.groups.capacity() * size_of::<GroupRules>()
    }
}

impl GroupRules {
    /// Whether a rule may match a path with these first bytes.
    #[inline]
    fn may_match(&self, head: u64) -> bool {
        let second_byte = head >> 48 & 63;
        self.second_bytes >> second_byte & 1 != 0
    }

    fn prefixes(&self) -> Range<usize> {
        self.prefixes.0 as usize..self.prefixes.1 as usize
    }

    fn patterns(&self) -> Range<usize> {
        self.patterns.0 as usize..self.patterns.1 as usize
    }
}
