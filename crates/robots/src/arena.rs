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

// Bounds the work of one decision. Most rules are refused by a few comparisons, which are not
// counted; the bytes that a search passes over are. The count depends only on the file and the
// path, never on the machine, so that replaying a decision has the same result.

/// The steps of one decision: some milliseconds in the worst case. A file with fewer than twenty
/// wildcard rules cannot take as many, whatever the path; real files take some thousands.
pub const STEPS_MAX: u64 = 3 << 19;

/// The steps of a search for one literal besides the bytes that it passes over.
const SEARCH_STEPS: usize = 32;

/// The remaining steps of one decision.
#[derive(Clone, Debug)]
pub struct Steps {
    left: u64,
    spent: u64,
}

/// A decision would exceed its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepsExceeded;

impl Steps {
    /// The steps of one decision.
    pub const fn of_decision() -> Steps {
        Steps::at_most(STEPS_MAX)
    }

    /// At most `steps`.
    pub const fn at_most(steps: u64) -> Steps {
        Steps { left: steps, spent: 0 }
    }

    /// Without a bound: for the operator's own rules, and for commands that delay no other request.
    pub const fn without_bound() -> Steps {
        Steps::at_most(u64::MAX)
    }

    /// How many have been taken; the last of them may exceed the bound.
    pub const fn spent(&self) -> u64 {
        self.spent
    }

    /// Counts a search for a literal of `needle` bytes that has passed over `bytes` bytes.
    #[inline]
    pub(super) fn search(&mut self, needle: usize, bytes: usize) -> Result<(), StepsExceeded> {
        self.take(SEARCH_STEPS + needle + bytes)
    }

    #[inline]
    pub(super) fn take(&mut self, steps: usize) -> Result<(), StepsExceeded> {
        let steps = steps as u64;
        self.spent += steps;
        let left = self.left.checked_sub(steps);
        self.left = left.unwrap_or(0);
        left.map(|_| ()).ok_or(StepsExceeded)
    }
}

/// A set of bytes. Bytes from 0x80 share a bit with those below, so it may report one that is
/// absent, but never misses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 2]);

impl ByteSet {
    pub(super) fn of<'a>(bytes: impl Iterator<Item = &'a u8>) -> ByteSet {
        let (mut low, mut high) = (0, 0);
        for byte in bytes {
            // Without a branch or a memory access: shifts by the excess produce zero in one of the
            // two halves.
            let is_high = u64::from(byte >> 6 & 1);
            high |= is_high << (byte & 63);
            low |= (is_high ^ 1) << (byte & 63);
        }
        ByteSet([low, high])
    }

    pub(super) fn includes(self, other: ByteSet) -> bool {
        self.0[0] & other.0[0] == other.0[0] && self.0[1] & other.0[1] == other.0[1]
    }
}
