//! Which groups apply to a crawler (RFC 9309 §2.2.1).

use std::cmp::Ordering;
use std::ops::Range;

use super::arena::{Arena, Span, count};
use super::dialect::{AgentName, Dialect, Several};
use super::head::folded_number;

/// The name of the default group.
pub(super) const DEFAULT: &[u8] = b"*";

/// One name on one user-agent line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Naming {
    pub name: Span,
    pub line: u32,
    pub group: u32,
}

/// Every naming of a file, sorted by name in any case, then by line: a crawler's groups are one
/// slice, found without allocation, and there is no hash for a hostile file to aim at.
#[derive(Debug, Default)]
pub(super) struct Namings {
    all: Vec<Naming>,
    /// The first octets of each name, in the same order: the search looks at little else.
    heads: Vec<u64>,
    /// Where those of the default group are.
    default: Range<u32>,
}

impl Namings {
    /// Notes what the value of a user-agent line names, if anything.
    pub(super) fn add(&mut self, value: &[u8], line: u32, group: u32, dialect: &Dialect, arena: &mut Arena) {
        let names = Names::of(value, dialect.agent_name);
        let whole = arena.push(names.longer);
        let mut add = |length| self.all.push(Naming { name: whole.first(length), line, group });
        if names.shorter > 0 {
            add(names.shorter);
        }
        if names.longer.len() > names.shorter {
            add(names.longer.len());
        }
    }

    /// To be called once, after the last line. A group that names somebody twice is one group still.
    pub(super) fn sort(&mut self, arena: &Arena) {
        self.all.sort_by(|a, b| compare(arena.get(a.name), arena.get(b.name)));
        self.all.dedup_by(|later, kept| {
            later.group == kept.group && arena.get(later.name).eq_ignore_ascii_case(arena.get(kept.name))
        });
        self.all.shrink_to_fit();
        self.heads = self.all.iter().map(|naming| folded_number(arena.get(naming.name))).collect();
        let default = self.range(DEFAULT, arena);
        self.default = count(default.start)..count(default.end);
    }

    /// The namings whose groups apply to `token`, or to everybody where it has none.
    pub(super) fn applying(&self, token: Option<&[u8]>, dialect: &Dialect, arena: &Arena) -> &[Naming] {
        let own = token.map_or(&[][..], |token| self.own(token, dialect, arena));
        if own.is_empty() {
            limited(self.default(), dialect.default_groups)
        } else {
            limited(own, dialect.own_groups)
        }
    }

    fn own(&self, token: &[u8], dialect: &Dialect, arena: &Arena) -> &[Naming] {
        let found = self.named(token, arena);
        if !found.is_empty() || !dialect.falls_back_to_shorter_token {
            return found;
        }
        let ends = (0..token.len()).rev().filter(|&at| matches!(token[at], b'-' | b'_'));
        ends.map(|end| self.named(&token[..end], arena)).find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn named(&self, name: &[u8], arena: &Arena) -> &[Naming] {
        &self.all[self.range(name, arena)]
    }

    fn default(&self) -> &[Naming] {
        &self.all[self.default.start as usize..self.default.end as usize]
    }

    /// Where the namings of `name` are.
    fn range(&self, name: &[u8], arena: &Arena) -> Range<usize> {
        let head = folded_number(name);
        let from = self.heads.partition_point(|other| *other < head);
        let alike = self.heads[from..].partition_point(|other| *other == head);
        let alike = &self.all[from..from + alike];
        let before = alike.partition_point(|naming| compare(arena.get(naming.name), name).is_lt());
        let same = alike[before..].partition_point(|naming| compare(arena.get(naming.name), name).is_eq());
        from + before..from + before + same
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.all.capacity() * size_of::<Naming>() + self.heads.capacity() * size_of::<u64>()
    }
}

/// What the value of a user-agent line names: `longer`, and its first `shorter` octets where that
/// is another name. Either may be empty.
struct Names<'a> {
    longer: &'a [u8],
    shorter: usize,
}

impl<'a> Names<'a> {
    fn of(value: &'a [u8], rule: AgentName) -> Names<'a> {
        let longer = match (value, rule) {
            // `*` alone or before a blank is the default group; `*x` is nobody (D-STAR).
            ([b'*'] | [b'*', b' ' | b'\t'..=b'\r', ..], _) => DEFAULT,
            ([b'*', ..], _) => b"",
            (_, AgentName::Letters) => &value[..letters(value)],
            // The longer name is for tokens with digits or dots. A token without them cannot equal it,
            // nor can one with them equal the shorter: one table serves both (D-DIGITS).
            (_, AgentName::LettersOrAsTheToken) => {
                &value[..leading(value, |octet| is_letter(octet) || octet.is_ascii_digit() || octet == b'.')]
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

/// An octet of RFC 9309's `product-token`.
fn is_letter(octet: u8) -> bool {
    octet.is_ascii_alphabetic() || octet == b'-' || octet == b'_'
}

fn leading(value: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    value.iter().position(|&octet| !belongs(octet)).unwrap_or(value.len())
}

/// A name that is not ASCII can be no crawler's token.
fn up_to_slash(value: &[u8]) -> &[u8] {
    let name = &value[..leading(value, |octet| octet != b'/')];
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
    let folded = |octet: &u8| octet.to_ascii_lowercase();
    a.iter().map(folded).cmp(b.iter().map(folded))
}
