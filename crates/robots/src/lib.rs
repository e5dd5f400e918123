#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod arena;
mod decision;
mod dialect;
mod group;
mod head;
mod lines;
mod lookup;
mod needles;
mod notes;
mod outage;
mod pace;
mod parse;
mod path;
mod pattern;
mod pattern_rules;
mod profile;
mod readings;
mod rule;
mod ruleset;
mod select;
#[cfg(test)]
mod tests;
mod words;

pub use arena::{STEPS_MAX, Steps, StepsExceeded};
pub use decision::{Basis, Decision, SelectedGroup, Verdict};
pub use dialect::{
    AgentName, Compared, ControlBytes, Dialect, Keys, Percent, Precedence, Several, Spellings,
};
use group::Parsed;
pub use group::{Group, WholeSite};
pub use lines::lines;
pub use notes::{IgnoredBecause, IgnoredLine, Record};
pub use outage::{FailedTries, InOutage, RETRY_AFTER_MAX};
pub use pace::{DelayRecord, GroupDelay, Obeyed, OutsideVisitTime, Pace, TimeOfDay};
use parse::parse;
pub use path::{Path, path_of_url};
pub use profile::{
    Access, FetchFailure, Freshness, Lifetimes, Meaning, Meanings, Obedience, Outage, OutageCopy,
    PaceKnobs, Profile,
};
pub use readings::Reading;
pub use rule::{Directive, Meant, Rule};
pub use words::UnknownWord;

/// A parsed robots.txt, as one dialect reads it. Owns what it keeps of the file.
#[derive(Debug)]
pub struct RobotsTxt(Parsed);

impl RobotsTxt {
    /// Parses `body` in `dialect`. Any bytes are a robots.txt, perhaps one without rules.
    pub fn parse(body: &[u8], dialect: &Dialect) -> RobotsTxt {
        Self(parse(body, dialect))
    }

    /// The dialect it was parsed in; paths must be made for the same one.
    pub fn dialect(&self) -> &Dialect {
        &self.0.dialect
    }

    /// The group that applies to a crawler: that of its product token, or else the default group
    /// `*`. A crawler without a token has only the latter. `None`: no group applies, so everything
    /// is allowed.
    #[inline]
    pub fn group(&self, token: Option<&str>) -> Option<Group<'_>> {
        let token = token.map(str::as_bytes);
        Group::new(&self.0, self.0.namings.applying(token, &self.0.dialect))
    }

    /// What the file asks of the pace of the crawlers of `group`, or of those without one.
    #[inline]
    pub fn pace(&self, group: Option<&Group<'_>>) -> Pace<'_> {
        self.0.paces.of_group(group.map(Group::first))
    }

    /// Whether the file asks something of the pace of some crawler.
    pub fn has_pace(&self) -> bool {
        !self.0.paces.is_empty()
    }

    /// The names of its groups in alphabetical order, each once ignoring case.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.0.namings.names()
    }

    /// The records other than rules, by line.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.0.notes.records(&self.0.arena)
    }

    /// The values of its `Sitemap` records, in their order. They belong to no group (RFC 9309
    /// §2.2.4), and are as written: a reader of them resolves and checks URLs.
    pub fn sitemaps(&self) -> impl Iterator<Item = &[u8]> {
        self.records().filter(|record| record.key == "sitemap").map(|record| record.value)
    }

    /// The first of the lines without effect, by line.
    pub fn ignored_lines(&self) -> impl Iterator<Item = IgnoredLine<'_>> {
        self.0.notes.ignored_lines(&self.0.arena)
    }

    /// The number of lines without effect, including those not kept.
    pub fn ignored_count(&self) -> usize {
        self.0.notes.ignored_count()
    }

    /// The number of rules in all groups.
    pub fn rule_count(&self) -> usize {
        self.0.rules.len()
    }

    /// Its approximate size in bytes, for a bounded cache.
    pub fn weight(&self) -> usize {
        self.0.weight()
    }
}
