//! Parses a robots.txt, selects the group of a crawler, and finds the rule for a path (RFC 9309
//! §2.2).
//!
//! Everything here is pure and total: it reads no clock, does no I/O, never fails and never panics,
//! whatever bytes it is given. Parsing takes time in proportion to the file; a search for the
//! deciding rule counts its [`Steps`], so that the caller can bound them. How the texts of
//! different years are read and matched is a [`Dialect`]. The module uses nothing outside itself,
//! as if it were a crate.
//!
//! ```
//! use courtesy::robots::{Dialect, Directive, Path, RobotsTxt};
//!
//! let dialect = &Dialect::RFC9309;
//! let robots = RobotsTxt::parse(b"user-agent: zebra\ndisallow: /stripes/\n", dialect);
//! let group = robots.group(Some("Zebra")).expect("the file names zebra");
//! let rule = group.rule_for(&Path::new(b"/stripes/1?black", dialect)).expect("a rule matches");
//! assert_eq!((rule.line, rule.directive), (2, Directive::Disallow));
//! ```

mod arena;
mod dialect;
mod group;
mod head;
mod lines;
mod lookup;
mod needles;
mod notes;
mod pace;
mod parse;
mod path;
mod pattern;
mod pattern_rules;
mod readings;
mod rule;
mod ruleset;
mod select;
#[cfg(test)]
mod tests;

pub use arena::{STEPS_MAX, Steps, StepsExceeded};
pub use dialect::{
    AgentName, Compared, ControlBytes, Dialect, Keys, Percent, Precedence, Several, Spellings,
};
use group::Parsed;
pub use group::{Group, WholeSite};
pub use lines::lines;
pub use notes::{IgnoredBecause, IgnoredLine, Record};
pub use pace::{DelayRecord, GroupDelay, Obeyed, OutsideVisitTime, Pace, TimeOfDay};
use parse::parse;
pub use path::{Path, path_of_url};
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
