//! Bounds the work of one decision. Most rules are refused by a few comparisons, which are not
//! counted; the bytes that a search passes over are. The count depends only on the file and the
//! path, never on the machine, so that replaying a decision has the same result.

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
