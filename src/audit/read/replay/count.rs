//! Counts of the outcomes of a replay.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Answer, Replayed};
use crate::audit::Record;
use crate::policy::profile::VERSION;

/// One number for each kind of outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Records that were looked at.
    pub records: u64,
    /// Decided as they were.
    pub same: u64,
    /// Disallowed before, allowed now.
    pub allowed: u64,
    /// Disallowed as before, on another basis.
    pub other_basis: u64,
    /// By the reason that is not robots.txt.
    pub not_of_robots: BTreeMap<String, u64>,
    /// Records that lack what a decision needs.
    pub undecidable: u64,
    /// Records whose evidence is missing or damaged.
    pub no_evidence: u64,
    /// Records of a version of the profiles that this program does not know. They are among the others.
    pub other_version: u64,
}

impl Count {
    /// Adds `outcome`, which came of `record`.
    pub fn add(&mut self, record: &Record, outcome: &Replayed) {
        self.records += 1;
        self.other_version += u64::from(record.profile.version > VERSION);
        match outcome {
            Replayed::Same => self.same += 1,
            Replayed::Differs { is: Answer::Allowed(_), .. } => self.allowed += 1,
            Replayed::Differs { .. } => self.other_basis += 1,
            Replayed::NotOfRobots(reason) => {
                let word = serde_json::to_value(reason).expect("a reason is a word");
                *self
                    .not_of_robots
                    .entry(word.as_str().unwrap_or_default().to_owned())
                    .or_default() += 1;
            }
            Replayed::Undecidable(_) => self.undecidable += 1,
            Replayed::NoEvidence(_) => self.no_evidence += 1,
        }
    }

    /// Records that come out otherwise.
    pub const fn differing(&self) -> u64 {
        self.allowed + self.other_basis
    }
}
