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
mod byte_set;
mod dialect;
mod dots;
mod group;
mod head;
mod lines;
mod literal;
mod lookup;
mod marks;
mod needles;
mod normal;
mod notes;
mod parse;
mod path;
mod pattern;
mod pattern_rules;
mod prefix_rules;
mod readings;
mod ruleset;
mod select;
mod steps;
#[cfg(test)]
mod tests;

pub use dialect::{
    AgentName, Compared, ControlBytes, Dialect, Keys, Percent, Precedence, Several, Spellings,
};
pub use group::{Group, WholeSite};
pub use lines::lines;
pub use notes::{IgnoredBecause, IgnoredLine, Record};
pub use path::{Path, path_of_url};
pub use readings::Reading;
pub use steps::{STEPS_MAX, Steps, StepsExceeded};

/// A parsed robots.txt, as one dialect reads it. Owns what it keeps of the file.
#[derive(Debug)]
pub struct RobotsTxt {
    dialect: Dialect,
    arena: arena::Arena,
    namings: select::Namings,
    rules: ruleset::Ruleset,
    /// The rules in lower case, if the dialect needs them and they differ.
    folded: Option<Box<ruleset::Ruleset>>,
    notes: notes::Notes,
}

/// The effect of a rule on the paths that it matches. Allow comes first, as it does between equal
/// rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Directive {
    /// `allow`
    Allow,
    /// `disallow`
    Disallow,
}

/// A rule of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// 1-based.
    pub line: u32,
    /// Its effect on matching paths.
    pub directive: Directive,
    /// The path pattern as written, without blanks around it.
    pub pattern: &'a [u8],
    /// The reading of the path in which this rule decides.
    pub read_as: Reading,
}

/// The meaning of a rule: its pattern in normal form (RFC 9309 §2.2.2), in which different
/// spellings of one pattern are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Meant<'a> {
    /// Its effect on matching paths.
    pub directive: Directive,
    /// With wildcards in their normal form.
    pub pattern: &'a [u8],
    /// Whether it must match up to the end of the path.
    pub anchored: bool,
    /// The length that determines its specificity.
    pub bytes: u32,
}

impl RobotsTxt {
    /// Parses `body` in `dialect`. Any bytes are a robots.txt, perhaps one without rules.
    pub fn parse(body: &[u8], dialect: &Dialect) -> RobotsTxt {
        parse::parse(body, dialect)
    }

    /// The dialect it was parsed in; paths must be made for the same one.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// The group that applies to a crawler: that of its product token, or else the default group
    /// `*`. A crawler without a token has only the latter. `None`: no group applies, so everything
    /// is allowed.
    #[inline]
    pub fn group(&self, token: Option<&str>) -> Option<Group<'_>> {
        let token = token.map(str::as_bytes);
        Group::new(self, self.namings.applying(token, &self.dialect))
    }

    /// The names of its groups in alphabetical order, each once ignoring case.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.namings.names()
    }

    /// The rules to compare `path` with.
    #[inline]
    fn rules_for(&self, path: &Path<'_>) -> &ruleset::Ruleset {
        match &self.folded {
            Some(folded) if path.is_folded() => folded,
            _ => &self.rules,
        }
    }

    /// The records other than rules, by line.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.notes.records(&self.arena)
    }

    /// The first of the lines without effect, by line.
    pub fn ignored_lines(&self) -> impl Iterator<Item = IgnoredLine<'_>> {
        self.notes.ignored_lines(&self.arena)
    }

    /// The number of lines without effect, including those not kept.
    pub fn ignored_count(&self) -> usize {
        self.notes.ignored_count()
    }

    /// The number of rules in all groups.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Its approximate size in bytes, for a bounded cache.
    pub fn weight(&self) -> usize {
        size_of::<RobotsTxt>()
            + self.arena.capacity()
            + self.namings.heap_bytes()
            + self.rules.heap_bytes()
            + self.folded.as_ref().map_or(0, |folded| size_of_val(&**folded) + folded.heap_bytes())
            + self.notes.heap_bytes()
    }
}
