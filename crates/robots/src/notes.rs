//! The parts of a robots.txt besides groups and rules: other records (RFC 9309 §2.2.4), and lines
//! that were not understood. Neither affects a decision.

use super::arena::{Arena, Span};
use super::select::Naming;

/// The keys of other records that are kept, in lower case.
const KEYS: [&str; 7] = [
    "sitemap",
    "crawl-delay",
    "request-rate",
    "visit-time",
    "content-signal",
    "content-usage",
    "license",
];

/// The most lines without effect that are kept; an HTML page in place of a robots.txt has many.
const IGNORED_LINES_MAX: usize = 100;
/// The most bytes kept of each.
const IGNORED_LINE_BYTES_MAX: usize = 200;

/// A record other than a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// 1-based.
    pub line: u32,
    /// `sitemap`, `crawl-delay`, `request-rate`, `visit-time`, `content-signal`, `content-usage` or
    /// `license`; always in lower case.
    pub key: &'static str,
    /// As written, without blanks around it.
    pub value: &'a [u8],
}

/// A line without any effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredLine<'a> {
    /// 1-based.
    pub line: u32,
    /// As written; truncated if it is long.
    pub text: &'a [u8],
    /// Why it has none.
    pub because: IgnoredBecause,
}

/// Why a line has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IgnoredBecause {
    /// It is not a key, a colon and a value.
    NoRecord,
    /// Its key is unknown.
    UnknownKey,
    /// It is a rule outside of any group.
    OutsideGroups,
    /// It is a rule whose pattern can match no path.
    MatchesNothing,
    /// It is a record for the pace whose value is not understood.
    BadValue,
}

#[derive(Debug)]
struct StoredRecord {
    line: u32,
    key: &'static str,
    value: Span,
    /// The first of the user-agent lines it follows, if it follows any. RFC 9309 §2.2.4 assigns
    /// other records to no group, but Crawl-delay has always applied to one: that of the preceding
    /// user-agent lines. A group with rules may span several such runs (D-OTHERREC).
    agents_from: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    records: Vec<StoredRecord>,
    ignored: Vec<(u32, Span, IgnoredBecause)>,
    ignored_count: usize,
}

impl Notes {
    /// Keeps a record if its key is known. Returns whether it is.
    pub(super) fn record(
        &mut self,
        line: u32,
        agents_from: Option<u32>,
        key: &[u8],
        value: &[u8],
        arena: &mut Arena,
    ) -> bool {
        let known = KEYS.into_iter().find(|known| key.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(key) = known {
            self.records.push(StoredRecord { line, key, value: arena.push(value), agents_from });
        }
        known.is_some()
    }

    pub(super) fn ignore(
        &mut self,
        line: u32,
        text: &[u8],
        because: IgnoredBecause,
        arena: &mut Arena,
    ) {
        self.ignored_count += 1;
        if self.ignored.len() < IGNORED_LINES_MAX {
            let kept = &text[..text.len().min(IGNORED_LINE_BYTES_MAX)];
            self.ignored.push((line, arena.push(kept), because));
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.records.shrink_to_fit();
        self.ignored.shrink_to_fit();
    }

    pub(super) fn records<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = Record<'a>> {
        self.records.iter().map(|record| record.view(arena))
    }

    /// The records that follow one of these user-agent lines, which are sorted.
    pub(super) fn records_after<'a>(
        &'a self,
        namings: &'a [Naming],
        arena: &'a Arena,
    ) -> impl Iterator<Item = Record<'a>> + use<'a> {
        let follows = |record: &&StoredRecord| {
            record.agents_from.is_some_and(|from| {
                let at = namings.partition_point(|naming| naming.line < from);
                namings.get(at).is_some_and(|naming| naming.line < record.line)
            })
        };
        self.records.iter().filter(follows).map(|record| record.view(arena))
    }

    pub(super) fn ignored_lines<'a>(
        &'a self,
        arena: &'a Arena,
    ) -> impl Iterator<Item = IgnoredLine<'a>> {
        self.ignored.iter().map(|&(line, text, because)| IgnoredLine {
            line,
            text: arena.get(text),
            because,
        })
    }

    pub(super) fn ignored_count(&self) -> usize {
        self.ignored_count
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.records.capacity() * size_of::<StoredRecord>()
            + self.ignored.capacity() * size_of::<(u32, Span, IgnoredBecause)>()
    }
}

impl StoredRecord {
    fn view<'a>(&self, arena: &'a Arena) -> Record<'a> {
        Record { line: self.line, key: self.key, value: arena.get(self.value) }
    }
}
