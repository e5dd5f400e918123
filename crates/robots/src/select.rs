//! Selects the groups that apply to a crawler (RFC 9309 §2.2.1).

use std::cmp::Ordering;
use std::ops::Range;

use super::arena::{Span, count};
use super::dialect::{AgentName, Dialect, Several};
use super::head::folded_number;

/// The name of the default group.
pub(super) const DEFAULT: &[u8] = b"*";

/// One name on one user-agent line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming {
    pub name: Span,
    /// The user-agent line, 1-based.
    pub line: u32,
    /// Its group, counted from 0.
    pub group: u32,
}

/// All names of a file, sorted by name ignoring case, then by line: a crawler's groups are one
/// slice, found without allocation, and there is no hash table for a hostile file to attack.
#[derive(Debug, Default)]
pub(super) struct Namings {
    all: Vec<Naming>,
    /// The names themselves, all of them ASCII.
    names: String,
    /// The prefix key of each name in the same order: the search reads little else.
    heads: Box<[u64]>,
    /// The range of the default group.
    default: Range<u32>,
}

impl Namings {
    /// Adds the name in the value of a user-agent line, if there is one.
    pub(super) fn add(&mut self, value: &[u8], line: u32, group: u32, dialect: &Dialect) {
        let names = Names::of(value, dialect.agent_name);
        let longer = str::from_utf8(names.longer).unwrap_or_default();
        if !self.names.ends_with(longer) {
            self.names.push_str(longer);
        }
        let whole = Span::last_of(self.names.len(), longer.len());
        let mut add = |length| self.all.push(Naming { name: whole.first(length), line, group });
        if names.shorter > 0 {
            add(names.shorter);
        }
        if names.longer.len() > names.shorter {
            add(names.longer.len());
        }
    }

    /// To be called once, after the last line.
    pub(super) fn sort(&mut self) {
        let Self { all, names, .. } = self;
        let name = |naming: &Naming| &names.as_bytes()[naming.name.range()];
        all.sort_by(|a, b| compare(name(a), name(b)));
    }

    /// To be called once, after [`Self::sort`]. A group that repeats a name is still one group.
    pub(super) fn dedup(&mut self) {
        let Self { all, names, .. } = self;
        let name = |naming: &Naming| &names.as_bytes()[naming.name.range()];
        all.dedup_by(|later, kept| {
            later.group == kept.group && name(later).eq_ignore_ascii_case(name(kept))
        });
        all.shrink_to_fit();
        self.heads = all.iter().map(|naming| folded_number(name(naming))).collect();
        let is_default = |naming: &Naming| name(naming) == DEFAULT;
        let from = all.iter().position(is_default).unwrap_or_default();
        let to = from + all[from..].iter().take_while(|naming| is_default(naming)).count();
        self.default = count(from)..count(to);
        self.names.shrink_to_fit();
    }

    /// The name as written.
    #[inline]
    pub(super) fn name(&self, naming: &Naming) -> &str {
        &self.names[naming.name.range()]
    }

    /// Each name once, ignoring case.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let alike = |a: &Naming, b: &Naming| self.name(a).eq_ignore_ascii_case(self.name(b));
        self.all.chunk_by(alike).map(|same| self.name(&same[0]))
    }

    /// The names of each group, as [`Self::applying`] returns them, but each of a repeated name. To
    /// be called before [`Self::dedup`].
    pub(super) fn groups(&self, dialect: &Dialect) -> impl Iterator<Item = &[Naming]> {
        let alike = |a: &Naming, b: &Naming| self.name(a).eq_ignore_ascii_case(self.name(b));
        let several = (dialect.default_groups, dialect.own_groups);
        self.all.chunk_by(alike).map(move |same| {
            let is_default = self.name(&same[0]).as_bytes() == DEFAULT;
            match if is_default { several.0 } else { several.1 } {
                Several::Merged => same,
                Several::First => {
                    &same[..same.partition_point(|naming| naming.group == same[0].group)]
                }
            }
        })
    }

    /// The names whose groups apply to `token`, or to every crawler if it has none.
    #[inline]
    pub(super) fn applying(&self, token: Option<&[u8]>, dialect: &Dialect) -> &[Naming] {
        let own = match token {
            // Most files name no crawler.
            Some(token) if self.default.len() < self.all.len() => self.own(token, dialect),
            _ => &[],
        };
        if own.is_empty() {
            limited(self.default(), dialect.default_groups)
        } else {
            limited(own, dialect.own_groups)
        }
    }

    fn own(&self, token: &[u8], dialect: &Dialect) -> &[Naming] {
        let found = self.named(token);
        if !found.is_empty() || !dialect.falls_back_to_shorter_token {
            return found;
        }
        let ends = (0..token.len()).rev().filter(|&at| matches!(token[at], b'-' | b'_'));
        ends.map(|end| self.named(&token[..end]))
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn named(&self, name: &[u8]) -> &[Naming] {
        &self.all[self.range(name)]
    }

    fn default(&self) -> &[Naming] {
        &self.all[self.default.start as usize..self.default.end as usize]
    }

    /// The range of a token's names.
    fn range(&self, name: &[u8]) -> Range<usize> {
        let head = folded_number(name);
        let from = self.heads.partition_point(|other| *other < head);
        let alike = self.heads[from..].iter().take_while(|other| **other == head).count();
        let alike = &self.all[from..from + alike];
        let before =
            alike.partition_point(|naming| compare(self.name(naming).as_bytes(), name).is_lt());
        let same = alike[before..]
            .partition_point(|naming| compare(self.name(naming).as_bytes(), name).is_eq());
        from + before..from + before + same
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Naming>()
            + self.names.capacity()
            + size_of_val(&*self.heads)
    }
}

/// The name in the value of a user-agent line: `longer`, and its first `shorter` bytes if they are
/// another name. Either may be empty.
struct Names<'a> {
    longer: &'a [u8],
    shorter: usize,
}

impl<'a> Names<'a> {
    fn of(value: &'a [u8], rule: AgentName) -> Names<'a> {
        let longer = match (value, rule) {
            // `*` alone or before a blank is the default group; `*x` names no crawler (D-STAR).
            ([b'*'] | [b'*', b' ' | b'\t'..=b'\r', ..], _) => DEFAULT,
            ([b'*', ..], _) => b"",
            (_, AgentName::Letters) => &value[..letters(value)],
            // The longer name is for tokens with digits or dots. A token without them cannot equal
            // it, nor can one with them equal the shorter: one table serves both (D-DIGITS).
            (_, AgentName::LettersOrAsTheToken) => {
                &value[..leading(value, |byte| {
                    is_letter(byte) || byte.is_ascii_digit() || byte == b'.'
                })]
            }
            (_, AgentName::UpToSlash) => up_to_slash(value),
        };
        let shorter = match rule {
            AgentName::LettersOrAsTheToken => letters(longer),
            _ => 0,
        };
        Names { longer, shorter }
    }
}

fn letters(value: &[u8]) -> usize {
    leading(value, is_letter)
}

/// A byte of RFC 9309's `product-token`.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_'
}

fn leading(value: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    value.iter().position(|&byte| !belongs(byte)).unwrap_or(value.len())
}

/// A name that is not ASCII matches no token.
fn up_to_slash(value: &[u8]) -> &[u8] {
    let name = &value[..leading(value, |byte| byte != b'/')];
    if name.is_ascii() { name.trim_ascii_end() } else { b"" }
}

fn limited(namings: &[Naming], several: Several) -> &[Naming] {
    match several {
        Several::Merged => namings,
        Several::First => &namings[..namings.len().min(1)],
    }
}

/// RFC 9309 §2.2.1: "case-insensitive matching".
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let folded = |byte: &u8| byte.to_ascii_lowercase();
    a.iter().map(folded).cmp(b.iter().map(folded))
}
