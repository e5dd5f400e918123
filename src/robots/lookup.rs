//! One path, looked up in the rules of one file: what that has taken so far, and what is known of the path.

use super::needles::{Needles, Occurring};
use super::path::Path;
use super::steps::{Steps, StepsExceeded};

/// One search for the rule that decides on a path, over all groups of a crawler.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub path: &'a Path<'a>,
    pub steps: &'a mut Steps,
    /// How many steps have been taken when it is cheaper to search for all literals at once.
    alone_until: u64,
    /// Which literals of the file the path has, once they have been searched for.
    occurring: Option<Occurring>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(path: &'a Path<'a>, steps: &'a mut Steps) -> Lookup<'a> {
        let alone_until = steps.spent() + Needles::steps(path) as u64;
        Lookup { path, steps, alone_until, occurring: None }
    }

    /// Which literals of `needles` the path has. None, as long as rules tried one by one have cost less than it
    /// would cost to know.
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
