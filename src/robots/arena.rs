//! One buffer for all the octets a parsed robots.txt keeps, so that a rule is a few numbers.

use std::ops::Range;

/// A piece of an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

/// Octets, only ever appended to.
#[derive(Debug, Default)]
pub(super) struct Arena(Vec<u8>);

impl Span {
    /// The last `length` octets of so many.
    pub(super) fn last_of(octets: usize, length: usize) -> Span {
        Span { start: count(octets - length), length: count(length) }
    }

    /// Where it is.
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    /// The first `length` octets of this piece, or all.
    pub(super) fn first(self, length: usize) -> Span {
        Span { length: self.length.min(count(length)), ..self }
    }

    /// How many octets it has.
    pub(super) fn length(self) -> u32 {
        self.length
    }
}

impl Arena {
    /// Keeps `octets`; once only, where what was kept last ends with the very same.
    pub(super) fn push(&mut self, octets: &[u8]) -> Span {
        if !self.0.ends_with(octets) {
            self.0.extend_from_slice(octets);
        }
        Span::last_of(self.0.len(), octets.len())
    }

    pub(super) fn get(&self, span: Span) -> &[u8] {
        &self.0[span.range()]
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }
}

/// A count of octets or lines as it is kept. The parser reads too few octets for any to be too big
/// (`SIZE_MAX` in `lines.rs`).
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
