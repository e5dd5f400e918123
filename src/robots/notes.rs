//! What a robots.txt says besides groups and rules: other records (RFC 9309 §2.2.4), and lines that
//! were not understood. Neither has any effect on a decision.

use super::arena::{Arena, Span};

/// Keys of other records that are kept, in lower case.
const KEYS: [&str; 5] = ["sitemap", "crawl-delay", "content-signal", "content-usage", "license"];

/// Ignored lines that are kept; of an HTML page in place of a robots.txt nobody wants them all.
const IGNORED_LINES_MAX: usize = 100;
/// Octets of each that are kept.
const IGNORED_LINE_OCTETS_MAX: usize = 200;

/// A record that is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// 1-based.
    pub line: u32,
    /// `sitemap`, `crawl-delay`, `content-signal`, `content-usage` or `license`; always in lower case.
    pub key: &'static str,
    /// As written, without blanks around it.
    pub value: &'a [u8],
}

/// A line without any effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredLine<'a> {
    /// 1-based.
    pub line: u32,
    /// As written; a long one is cut.
    pub text: &'a [u8],
    /// Why it has none.
    pub because: IgnoredBecause,
}

/// Why a line has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IgnoredBecause {
    /// It is not a key, a colon and a value.
    NoRecord,
    /// Its key is none that is known here.
    UnknownKey,
    /// It is a rule, but of no group.
    OutsideGroups,
    /// It is a rule, but with a path pattern that no path can match.
    MatchesNothing,
}

#[derive(Debug, Default)]
pub(super) struct Notes {
    records: Vec<(u32, &'static str, Span)>,
    ignored: Vec<(u32, Span, IgnoredBecause)>,
    ignored_count: usize,
}

impl Notes {
    /// Keeps a record if its key is a known one; says whether it is.
    pub(super) fn record(&mut self, line: u32, key: &[u8], value: &[u8], arena: &mut Arena) -> bool {
        let known = KEYS.into_iter().find(|known| key.eq_ignore_ascii_case(known.as_bytes()));
        if let Some(key) = known {
            self.records.push((line, key, arena.push(value)));
        }
        known.is_some()
    }

    pub(super) fn ignore(&mut self, line: u32, text: &[u8], because: IgnoredBecause, arena: &mut Arena) {
        self.ignored_count += 1;
        if self.ignored.len() < IGNORED_LINES_MAX {
            let kept = &text[..text.len().min(IGNORED_LINE_OCTETS_MAX)];
            self.ignored.push((line, arena.push(kept), because));
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.records.shrink_to_fit();
        self.ignored.shrink_to_fit();
    }

    pub(super) fn records<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = Record<'a>> {
        self.records.iter().map(|&(line, key, value)| Record { line, key, value: arena.get(value) })
    }

    pub(super) fn ignored_lines<'a>(&'a self, arena: &'a Arena) -> impl Iterator<Item = IgnoredLine<'a>> {
        self.ignored.iter().map(|&(line, text, because)| IgnoredLine { line, text: arena.get(text), because })
    }

    pub(super) fn ignored_count(&self) -> usize {
        self.ignored_count
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.records.capacity() * size_of::<(u32, &str, Span)>()
            + self.ignored.capacity() * size_of::<(u32, Span, IgnoredBecause)>()
    }
}
