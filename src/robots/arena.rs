//! One buffer for all bytes that a parsed robots.txt keeps, so that a rule is a few numbers.

use std::ops::Range;

/// A slice of an [`Arena`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    length: u32,
}

/// An append-only buffer.
#[derive(Debug, Default)]
pub(super) struct Arena(Vec<u8>);

impl Span {
    /// The last `length` of so many bytes.
    pub(super) fn last_of(bytes: usize, length: usize) -> Span {
        Span { start: count(bytes - length), length: count(length) }
    }

    /// Its range in the buffer.
    pub(super) fn range(self) -> Range<usize> {
        self.start as usize..self.start as usize + self.length as usize
    }

    /// The first `length` bytes of this slice, or all.
    pub(super) fn first(self, length: usize) -> Span {
        Span { length: self.length.min(count(length)), ..self }
    }

    /// Its length in bytes.
    pub(super) fn length(self) -> u32 {
        self.length
    }
}

impl Arena {
    /// Stores `bytes`; reuses the end of the buffer if that is equal to them.
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

/// Converts a count of bytes or lines to its stored type. The parser's input limit rules out an
/// overflow (`SIZE_MAX` in `lines.rs`).
pub(super) fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
