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

pub use arena::{STEPS_MAX, Steps, StepsExceeded};
pub use decision::{Basis, Decision, SelectedGroup, Verdict};
pub use dialect::{
    AgentName, Compared, ControlBytes, Dialect, Keys, Percent, Precedence, Several, Spellings,
    UnknownWord,
};
use group::Parsed;
pub use group::{Group, WholeSite};
pub use lines::lines;
pub use notes::{IgnoredBecause, IgnoredLine, Record};
pub use outage::{Access, FailedTries, InOutage, Outage, OutageCopy, RETRY_AFTER_MAX};
pub use pace::{DelayRecord, GroupDelay, Obeyed, OutsideVisitTime, Pace, TimeOfDay};
use parse::parse;
pub use path::{Path, path_of_url};
pub use profile::{
    FetchFailure, Freshness, Lifetimes, Meaning, Meanings, Obedience, PaceKnobs, Profile,
};
pub use readings::Reading;
pub use rule::{Directive, Meant, Rule};

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

    /// Whether the crawler with the product token `token` may request `path_and_query`, as the
    /// dialect of this file reads it. Takes at most [`STEPS_MAX`] steps.
    ///
    /// A crawler without a token (`None`) follows the group `*`. [`path_of_url`] gives path and query
    /// of a URL.
    ///
    /// ```
    /// use courtesy_robots::{Dialect, RobotsTxt, Verdict};
    ///
    /// let file = b"User-agent: *\nDisallow: /private/\nAllow: /private/open\n";
    /// let robots = RobotsTxt::parse(file, &Dialect::RFC9309);
    /// let decision = robots.decide(Some("ExampleBot"), b"/private/a");
    /// assert_eq!(decision.verdict, Verdict::Disallow);
    /// assert_eq!(
    ///     decision.basis.to_string(),
    ///     r#"line 2, "Disallow: /private/", of the group "*" (line 1)"#
    /// );
    /// ```
    #[inline]
    pub fn decide(&self, token: Option<&str>, path_and_query: &[u8]) -> Decision<'_> {
        self.decide_in(self.group(token), path_and_query)
    }

    /// The same for a caller that has looked up the group of its crawler before
    /// ([`RobotsTxt::group`]).
    #[inline(always)]
    pub fn decide_in<'a>(
        &'a self,
        group: Option<Group<'a>>,
        path_and_query: &[u8],
    ) -> Decision<'a> {
        decision::decide(self.dialect(), group, path_and_query)
    }

    /// The decision for every path that begins with `begin`; `None` if it depends on the rest. See
    /// [`Group::rule_for_beginning`] for the restrictions on `begin`.
    pub fn decide_beginning(&self, token: Option<&str>, begin: &[u8]) -> Option<Decision<'_>> {
        decision::decide_beginning(self.dialect(), self.group(token), begin)
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
