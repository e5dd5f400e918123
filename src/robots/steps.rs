//! How much work one decision may take. Most rules are refused by a few comparisons, which are not
//! counted; what is counted are the bytes that a search passes over. The count depends on the file and
//! the path alone, never on the machine, so that a decision made again comes out the same.

/// Steps of one decision: some milliseconds at the very worst. A file with fewer than twenty rules with
/// wildcards cannot take as many, whatever the path; real files take some thousands.
pub const STEPS_MAX: u64 = 3 << 19;

/// Steps that the search for one literal takes besides the bytes that it passes over.
const SEARCH_STEPS: usize = 32;

/// The steps of one decision, counted down.
#[derive(Clone, Debug)]
pub struct Steps {
    left: u64,
    spent: u64,
}

/// A decision would take more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepsExceeded;

impl Steps {
    /// As many as one decision may take.
    pub const fn of_decision() -> Steps {
        Steps::at_most(STEPS_MAX)
    }

    /// At most so many.
    pub const fn at_most(steps: u64) -> Steps {
        Steps { left: steps, spent: 0 }
    }

    /// However many it takes: for rules of the operator's own, and for questions that keep no other waiting.
    pub const fn without_bound() -> Steps {
        Steps::at_most(u64::MAX)
    }

    /// How many have been taken, the last of them perhaps beyond the bound.
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
