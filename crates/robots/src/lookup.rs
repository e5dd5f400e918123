//! The state of one search: the steps taken, and the literals found in the path.

use super::arena::{Steps, StepsExceeded};
use super::needles::{Needles, Occurring};
use super::path::Path;

/// One search for the rule that decides on a path, over all groups of a crawler.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub path: &'a Path<'a>,
    pub steps: &'a mut Steps,
    /// The number of steps after which it is cheaper to search for all literals at once.
    alone_until: u64,
    /// The literals of the file that the path contains, once they have been searched for.
    occurring: Option<Occurring>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(path: &'a Path<'a>, steps: &'a mut Steps) -> Lookup<'a> {
        let alone_until = steps.spent() + Needles::steps(path) as u64;
        Lookup { path, steps, alone_until, occurring: None }
    }

    /// The literals of `needles` that the path contains. `None` as long as trying rules one by one
    /// has cost less than the search would.
    pub(super) fn occurring(
        &mut self,
        needles: &Needles,
    ) -> Result<Option<&Occurring>, StepsExceeded> {
        if self.occurring.is_none() && self.steps.spent() >= self.alone_until {
            self.occurring = Some(needles.occurring(self.path, self.steps)?);
        }
        Ok(self.occurring.as_ref())
    }
}
