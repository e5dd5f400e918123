//! Excludes rules with wildcards that cannot match a path, by one search for a literal of each (Aho
//! and Corasick, "Efficient string matching", 1975). Its time does not grow with the number of
//! rules.
//!
//! Built for large files only, and used only after trying rules one by one has cost as much.

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, MatchKind};

use super::arena::{Arena, Steps, StepsExceeded, count};
use super::path::Path;
use super::rule::StoredRule;

/// Fewer rules with wildcards are tried one by one; ten in four thousand real files have as many.
const RULES_MIN: usize = 256;

/// The bytes of all literals together: each takes about 20 bytes of memory in the automaton, and 60
/// while it is built. Rules beyond have no literal, and are tried one by one.
const BYTES_MAX: usize = 128 << 10;

/// Of literals that are suffixes of one another, only this many are in the automaton, the longest
/// ones: so at most this many are found at one position of a path, which bounds the lists of each
/// state.
const NESTED_MAX: usize = 8;

/// The cost of one byte of a path in the automaton, in steps: its memory accesses are random.
const BYTE_STEPS: usize = 8;

/// The number of a rule without a literal in the automaton.
const NONE: u32 = u32::MAX;

/// One literal per rule: the longest between its wildcards.
#[derive(Debug)]
pub(super) struct Needles {
    automaton: NFA,
    /// The number of each rule's literal, or [`NONE`], by the rule's index.
    of_rules: Box<[u32]>,
}

/// The literals that a path contains, once they have been searched for.
#[derive(Debug)]
pub(super) struct Occurring(Box<[u64]>);

impl Needles {
    /// For `rules`, if they are enough to be worth it.
    pub(super) fn of(rules: &[StoredRule], arena: &Arena) -> Option<Needles> {
        if rules.len() < RULES_MIN {
            return None;
        }
        let mut bytes = 0;
        let mut sorted: Vec<(&[u8], usize)> = (0..)
            .zip(rules)
            .filter_map(|(place, rule)| Some((rule.pattern.needle(arena)?, place)))
            .take_while(|(needle, _)| {
                bytes += needle.len();
                bytes <= BYTES_MAX
            })
            .collect();
        // Each follows those that are its suffixes.
        sorted.sort_by(|(a, _), (b, _)| a.iter().rev().cmp(b.iter().rev()));
        let mut of_rules = vec![NONE; rules.len()].into_boxed_slice();
        let mut needles: Vec<&[u8]> = Vec::new();
        let alike: Vec<_> = sorted.chunk_by(|(a, _), (b, _)| a == b).collect();
        for (rules, longer) in alike.iter().zip(longer(&alike)) {
            if longer < NESTED_MAX {
                rules.iter().for_each(|(_, place)| of_rules[*place] = count(needles.len()));
                needles.push(rules[0].0);
            }
        }
        let mut builder = NFA::builder();
        builder.match_kind(MatchKind::Standard).prefilter(false);
        // Fails only with more states than a 32-bit number counts.
        Some(Needles { automaton: builder.build(&needles).ok()?, of_rules })
    }

    /// Whether the rule at `place` has a literal that was not found.
    pub(super) fn refuses(&self, place: usize, occurring: &Occurring) -> bool {
        let needle = self.of_rules[place];
        needle != NONE && !occurring.has(needle)
    }

    /// The cost of searching `path`, in steps.
    pub(super) fn steps(path: &Path<'_>) -> usize {
        path.bytes().len() * BYTE_STEPS
    }

    /// The literals that `path` contains.
    pub(super) fn occurring(
        &self,
        path: &Path<'_>,
        steps: &mut Steps,
    ) -> Result<Occurring, StepsExceeded> {
        steps.take(Needles::steps(path))?;
        let mut found = vec![0_u64; self.automaton.patterns_len().div_ceil(64)].into_boxed_slice();
        // An unanchored search has a start state.
        let Ok(mut state) = self.automaton.start_state(Anchored::No) else {
            return Ok(Occurring::all(found));
        };
        for byte in path.bytes() {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            if self.automaton.is_match(state) {
                for index in 0..self.automaton.match_len(state) {
                    let needle = self.automaton.match_pattern(state, index).as_usize();
                    found[needle / 64] |= 1 << (needle % 64);
                }
            }
        }
        Ok(Occurring(found))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.automaton.memory_usage() + size_of_val(&*self.of_rules)
    }
}

impl Occurring {
    /// Treats every literal as found, so that no rule is excluded.
    fn all(mut found: Box<[u64]>) -> Occurring {
        found.fill(u64::MAX);
        Occurring(found)
    }

    fn has(&self, needle: u32) -> bool {
        self.0[needle as usize / 64] >> (needle % 64) & 1 != 0
    }
}

/// For each literal, the number of others that form a chain of suffixes of it. Each follows those
/// that are its suffixes.
fn longer(alike: &[&[(&[u8], usize)]]) -> Vec<usize> {
    // The longest suffix of each.
    let mut shorter = vec![None; alike.len()];
    let mut chain: Vec<usize> = Vec::new();
    for (at, rules) in alike.iter().enumerate() {
        while chain.pop_if(|before| !rules[0].0.ends_with(alike[*before][0].0)).is_some() {}
        shorter[at] = chain.last().copied();
        chain.push(at);
    }
    let mut longer = vec![0; alike.len()];
    for at in (0..alike.len()).rev() {
        if let Some(shorter) = shorter[at] {
            longer[shorter] = longer[shorter].max(longer[at] + 1);
        }
    }
    longer
}
