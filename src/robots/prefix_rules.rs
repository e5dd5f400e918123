//! The rules that match whatever begins with them: most rules are such.
//!
//! Sorted, they are found by one binary search, however many they are. Of all that a path begins with, the
//! longest stands last before it, or is what that one begins with; and which of these decides was
//! settled when the file was parsed.

use std::ops::Range;

use super::arena::{Arena, count};
use super::dialect::Precedence;
use super::head::{self, Head};
use super::path::Path;
use super::ruleset::StoredRule;

/// Of so few rules whose first bytes are alike, each is tried, from the longest on.
const ALIKE_TRIED_MAX: usize = 4;

/// Rules without a wildcard, an anchor or a second form, those of each group sorted by their bytes.
#[derive(Debug, Default)]
pub(super) struct PrefixRules {
    rules: Vec<StoredRule>,
    /// The first bytes of each, as one number: the search looks at little else.
    heads: Box<[u64]>,
    links: Vec<Link>,
}

/// What a rule has to do with the others of its group that it begins with.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// How many bytes the rule has.
    length: u32,
    /// Where the longest of those others is; the rule itself, where there is none.
    shorter: u32,
    /// Where the one of all these is that decides on a path which begins with the rule.
    deciding: u32,
}

impl PrefixRules {
    pub(super) fn push(&mut self, rule: StoredRule) {
        self.rules.push(rule);
    }

    /// How many rules there are.
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    /// The rules of one group, in no order that matters.
    pub(super) fn of_group(&self, group: Range<usize>) -> &[StoredRule] {
        &self.rules[group]
    }

    /// To be called after the last rule, with the groups as they come.
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
        self.heads = self.rules.iter().map(|rule| head::number(rule.pattern.text(arena))).collect();
    }

    fn link(&mut self, group: Range<usize>, precedence: Precedence, arena: &Arena) {
        // What the rule before begins with, and that rule itself: the shortest first.
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

    /// Where the last rule is that comes before `path`, or equals it.
    #[inline]
    fn last_before(&self, group: Range<usize>, path: &Path<'_>, arena: &Arena) -> Option<usize> {
        let (from, heads) = (group.start, &self.heads[group]);
        let last = head::count_up_to(heads, path.head()).checked_sub(1)?;
        if heads[last] < path.head() || Head::is_all_of(self.links[from + last].length as usize) {
            return Some(from + last);
        }
        // Those that begin as the path does, and go on.
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

/// Whether a path begins with a longer text than a head, without a call for what is mostly a few bytes.
#[inline]
fn begins_with(path: &[u8], text: &[u8]) -> bool {
    let Some(beginning) = path.get(..text.len()) else { return false };
    let (of_path, of_text) = (beginning.as_chunks::<8>().0, text.as_chunks::<8>().0);
    of_path.iter().zip(of_text).all(|(a, b)| u64::from_ne_bytes(*a) == u64::from_ne_bytes(*b))
        && beginning.last_chunk::<8>() == text.last_chunk()
}
