//! One buffer for all the bytes a parsed robots.txt keeps, so that a rule is a few numbers.

use std::ops::Range;

/// A piece of an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

/// Bytes, only ever appended to.
#[derive(Debug, Default)]
pub(super) struct Arena(Vec<u8>);

impl Span {
    /// The last `length` bytes of so many.
    pub(super) fn last_of(bytes: usize, length: usize) -> Span {
        Span { start: count(bytes - length), length: count(length) }
    }

    /// Where it is.
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    /// The first `length` bytes of this piece, or all.
    pub(super) fn first(self, length: usize) -> Span {
        Span { length: self.length.min(count(length)), ..self }
    }

    /// How many bytes it has.
    pub(super) fn length(self) -> u32 {
        self.length
    }
}

impl Arena {
    /// Keeps `bytes`; once only, where what was kept last ends with the very same.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Span {
        if !self.0.ends_with(bytes) {
            self.0.extend_from_slice(bytes);
        }
        Span::last_of(self.0.len(), bytes.len())
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

/// A count of bytes or lines as it is kept. The parser reads too few bytes for any to be too big
/// (`SIZE_MAX` in `lines.rs`).
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
