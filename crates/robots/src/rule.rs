//! One rule: as callers see it, its meaning, and as it is stored.

use std::cmp::Reverse;
use std::fmt;

use super::arena::{Arena, Span};
use super::dialect::Precedence;
use super::pattern::Pattern;
use super::readings::Reading;

/// The effect of a rule on the paths that it matches. Allow comes first, as it does between equal
/// rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directive {
    /// `allow`
    Allow,
    /// `disallow`
    Disallow,
}

/// The key as RFC 9309 writes it: `Allow` or `Disallow`.
impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allow => "Allow",
            Self::Disallow => "Disallow",
        })
    }
}

/// A rule of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// 1-based.
    pub line: u32,
    /// Its effect on matching paths.
    pub directive: Directive,
    /// The path pattern as written, without blanks around it.
    pub pattern: &'a [u8],
    /// The reading of the path in which this rule decides.
    pub read_as: Reading,
}

/// The meaning of a rule: its pattern in normal form (RFC 9309 §2.2.2), in which different
/// spellings of one pattern are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meant<'a> {
    /// Its effect on matching paths.
    pub directive: Directive,
    /// With wildcards in their normal form.
    pub pattern: &'a [u8],
    /// Whether it must match up to the end of the path.
    pub anchored: bool,
    /// The length that determines its specificity.
    pub bytes: u32,
}

/// A rule as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredRule {
    pub pattern: Pattern,
    pub written: Span,
    /// Its line in the file, 1-based.
    pub line: u32,
    pub directive: Directive,
}

/// Sorts the deciding rule first.
pub(super) type Rank = (Reverse<u32>, Option<Directive>, u32);

impl StoredRule {
    /// RFC 9309 §2.2.2: most bytes first; on a tie allow, "the least restrictive". Then the first
    /// line.
    pub(super) fn rank(&self, precedence: Precedence) -> Rank {
        match precedence {
            Precedence::MostBytes => (Reverse(self.pattern.bytes), Some(self.directive), self.line),
            Precedence::FirstMatch => (Reverse(0), None, self.line),
        }
    }

    /// Its meaning, independent of its position and spelling.
    pub(super) fn meant<'a>(&self, arena: &'a Arena) -> Meant<'a> {
        let Pattern { bytes, .. } = self.pattern;
        let (pattern, anchored) = (self.pattern.text(arena), self.pattern.is_anchored());
        Meant { directive: self.directive, pattern, anchored, bytes }
    }

    #[inline]
    pub(super) fn view<'a>(&self, arena: &'a Arena) -> Rule<'a> {
        let (line, directive) = (self.line, self.directive);
        Rule { line, directive, pattern: arena.get(self.written), read_as: Reading::default() }
    }
}
