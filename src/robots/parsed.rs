//! What is kept of a robots.txt.

use super::arena::Arena;
use super::dialect::Dialect;
use super::notes::Notes;
use super::pace::Paces;
use super::path::Path;
use super::ruleset::Ruleset;
use super::select::Namings;

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
