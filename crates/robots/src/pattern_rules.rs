//! Rules that are more than a prefix: with wildcards, with an anchor, or with two forms.

use std::ops::Range;

use super::arena::{Arena, StepsExceeded, count};
use super::dialect::Precedence;
use super::head::{self, Head};
use super::lookup::Lookup;
use super::needles::Needles;
use super::path::Path;
use super::rule::StoredRule;

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

// Rules that match every path that begins with them, as most rules do.
//
// They are sorted and found by one binary search, however many there are. Of all rules that a path
// begins with, the longest is the last one before the path in this order, or a prefix of that one;
// which of these decides is computed by the parser.

/// Up to this many rules with equal first bytes are tried one by one, from the longest.
const ALIKE_TRIED_MAX: usize = 4;

/// Rules without a wildcard, an anchor or a second form, those of each group sorted by their bytes.
#[derive(Debug, Default)]
pub(super) struct PrefixRules {
    rules: Vec<StoredRule>,
    /// The first bytes of each as one number: the search reads little else.
    heads: Box<[u64]>,
    links: Vec<Link>,
}

/// The relation of a rule to the rules of its group that are prefixes of it.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// The length of the rule in bytes.
    length: u32,
    /// The index of the longest of those prefixes; of the rule itself, if there is none.
    shorter: u32,
    /// The index of the one that decides on a path that begins with the rule.
    deciding: u32,
}

impl PrefixRules {
    pub(super) fn push(&mut self, rule: StoredRule) {
        self.rules.push(rule);
    }

    /// The number of rules.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules of one group, in any order.
    pub(super) fn of_group(&self, group: Range<usize>) -> &[StoredRule] {
        &self.rules[group]
    }

    /// To be called after the last rule, with the groups in their order.
    pub(super) fn sort(
        &mut self,
        groups: impl Iterator<Item = Range<usize>>,
        precedence: Precedence,
        arena: &Arena,
    ) {
        self.rules.shrink_to_fit();
        self.links = Vec::with_capacity(self.rules.len());
        for group in groups {
            self.rules[group.clone()]
                .sort_by(|a, b| a.pattern.text(arena).cmp(b.pattern.text(arena)));
            self.link(group, precedence, arena);
        }
        self.heads =
            self.rules.iter().map(|rule| head::head_number(rule.pattern.text(arena))).collect();
    }

    fn link(&mut self, group: Range<usize>, precedence: Precedence, arena: &Arena) {
        // The prefixes of the previous rule, and that rule itself: the shortest first.
        let mut chain: Vec<usize> = Vec::new();
        for at in group {
            let rule = &self.rules[at];
            let text = rule.pattern.text(arena);
            while chain
                .pop_if(|shorter| !text.starts_with(self.rules[*shorter].pattern.text(arena)))
                .is_some()
            {}
            let shorter = chain.last().copied().unwrap_or(at);
            let deciding_before = self.links.get(shorter).map(|link| link.deciding as usize);
            let deciding = deciding_before
                .filter(|before| self.rules[*before].rank(precedence) < rule.rank(precedence))
                .unwrap_or(at);
            let length = count(text.len());
            self.links.push(Link { length, shorter: count(shorter), deciding: count(deciding) });
            chain.push(at);
        }
    }

    /// The rule of one group that decides on `path`.
    #[inline]
    pub(super) fn deciding(
        &self,
        group: Range<usize>,
        path: &Path<'_>,
        arena: &Arena,
    ) -> Option<&StoredRule> {
        let mut at = self.last_before(group, path, arena)?;
        loop {
            let link = self.links[at];
            if self.begins(path, at, arena) {
                return self.rules.get(link.deciding as usize);
            }
            if link.shorter as usize == at {
                return None;
            }
            at = link.shorter as usize;
        }
    }

    /// The index of the last rule that sorts before `path`, or equals it.
    #[inline]
    fn last_before(&self, group: Range<usize>, path: &Path<'_>, arena: &Arena) -> Option<usize> {
        let (from, heads) = (group.start, &self.heads[group]);
        let last = head::count_up_to(heads, path.head()).checked_sub(1)?;
        if heads[last] < path.head() || Head::is_all_of(self.links[from + last].length as usize) {
            return Some(from + last);
        }
        // Those that begin like the path, and are longer.
        let alike = heads[..last].partition_point(|head| *head < path.head());
        let rules = &self.rules[from + alike..=from + last];
        let before = if rules.len() <= ALIKE_TRIED_MAX {
            let begins = |at: &usize| self.begins(path, from + alike + at, arena);
            (0..rules.len()).rev().find(begins).map_or(0, |at| at + 1)
        } else {
            rules.partition_point(|rule| rule.pattern.text(arena) <= path.bytes())
        };
        (alike + before).checked_sub(1).map(|last| from + last)
    }

    /// Whether `path` begins with a rule.
    #[inline]
    fn begins(&self, path: &Path<'_>, at: usize, arena: &Arena) -> bool {
        let length = self.links[at].length as usize;
        if Head::is_all_of(length) {
            Head::of_first(self.heads[at], length).admits(path.head())
        } else {
            self.heads[at] == path.head()
                && begins_with(path.bytes(), self.rules[at].pattern.text(arena))
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.rules.capacity() * size_of::<StoredRule>()
            + size_of_val(&*self.heads)
            + self.links.capacity() * size_of::<Link>()
    }
}

/// Compares what follows the prefix key, without a call for usually few bytes.
#[inline]
fn begins_with(path: &[u8], text: &[u8]) -> bool {
    let Some(beginning) = path.get(..text.len()) else { return false };
    let (of_path, of_text) = (beginning.as_chunks::<8>().0, text.as_chunks::<8>().0);
    of_path.iter().zip(of_text).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && beginning.last_chunk::<8>() == text.last_chunk()
}
