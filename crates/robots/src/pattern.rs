//! Compiles path patterns (RFC 9309 §2.2.2 and §2.2.3), and matches them.
//!
//! Between wildcards a pattern is a run of literal bytes. Choosing the leftmost occurrence of each in
//! turn is exact, because whatever follows a wildcard matches at least as well after an earlier
//! end. So one pass over the path decides: no backtracking, whatever the pattern.

use std::ops::Range;
use std::ptr;

use memchr::{memchr, memmem, memrchr};

use super::arena::{Arena, ByteSet, Span, Steps, StepsExceeded, count};
use super::dialect::{ControlBytes, Dialect, Percent};
use super::head::Head;
use super::path::{self, Item, Items, Path, STAR};

const WILDCARD: Item = Item { byte: b'*', encoded: false };

/// A compiled path pattern. Its bytes are in an [`Arena`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    /// Bytes that a path must contain somewhere.
    byte_set: ByteSet,
    /// The normal form, wildcards as [`STAR`].
    normal: Span,
    /// The same for the query of a URL, where `%2F` and `%3F` have another normal form. Usually the
    /// same slice.
    in_query: Span,
    /// The number of bytes before the first wildcard.
    prefix: u32,
    /// The number of bytes that are not wildcards: no shorter path can match.
    literal: u32,
    /// Whether it must match up to the end of the path (a final `$`).
    anchored: bool,
    /// RFC 9309 §2.2.2: "The most specific match is the match that has the most bytes."
    pub bytes: u32,
}

impl Pattern {
    /// Compiles a pattern as written. `None`: it can match nothing, because it begins neither with
    /// `/` nor with `*` (D-NONSLASH) or has a byte that no rule may have (D-OCTETS).
    pub(super) fn compile(written: &[u8], dialect: &Dialect, arena: &mut Arena) -> Option<Pattern> {
        if !matches!(written.first(), Some(b'/' | b'*')) || has_forbidden_byte(written, dialect) {
            return None;
        }
        // `$` is special only as the last character (D-DOLLAR).
        let anchor = written.strip_suffix(b"$").filter(|_| dialect.wildcards);
        let (mut normal, mut bytes) = normalise(anchor.unwrap_or(written), dialect);
        bytes += u32::from(anchor.is_some());
        let mut anchored = anchor.is_some();
        // A wildcard at the end matches every end; it only counts for the length (D-TRAILSTAR).
        if normal.last() == Some(&STAR) {
            normal.pop();
            anchored = false;
        }
        Some(Pattern::store(&normal, anchored, bytes, arena, dialect))
    }

    fn store(
        normal: &[u8],
        anchored: bool,
        bytes: u32,
        arena: &mut Arena,
        dialect: &Dialect,
    ) -> Pattern {
        let span = arena.push(normal);
        let two_forms = dialect.percent == Percent::ByValue
            && normal.iter().any(|&byte| path::in_query(byte) != byte);
        let in_query = if two_forms {
            arena.push(&normal.iter().map(|&byte| path::in_query(byte)).collect::<Vec<_>>())
        } else {
            span
        };
        let stars = normal.iter().filter(|&&byte| byte == STAR).count();
        let prefix = memchr(STAR, normal).unwrap_or(normal.len());
        // If a path may take the other form of a pattern, it need not contain the bytes of this
        // one.
        let certain = if two_forms { &[][..] } else { normal };
        Pattern {
            byte_set: ByteSet::of(certain.iter().filter(|&&byte| byte != STAR)),
            normal: span,
            in_query,
            prefix: count(prefix),
            literal: count(normal.len() - stars),
            anchored,
            bytes,
        }
    }

    /// The same in lower case.
    pub(super) fn folded(&self, arena: &mut Arena, dialect: &Dialect) -> Pattern {
        let normal = self.text(arena).to_ascii_lowercase();
        Pattern::store(&normal, self.anchored, self.bytes, arena, dialect)
    }

    /// The common beginning of all paths that it matches.
    pub(super) fn head(&self, arena: &Arena) -> Head {
        // With two forms, a path may begin with either.
        let prefix = if self.has_two_forms() { 0 } else { self.prefix as usize };
        Head::of_prefix(&arena.get(self.normal)[..prefix])
    }

    /// The normal form.
    pub(super) fn text<'a>(&self, arena: &'a Arena) -> &'a [u8] {
        arena.get(self.normal)
    }

    /// Whether it must match up to the end of the path.
    pub(super) const fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// The second byte of all paths that it matches, if they have one in common.
    pub(super) fn second_byte(&self, arena: &Arena) -> Option<u8> {
        let has_one = self.prefix >= 2 && !self.has_two_forms();
        has_one.then(|| self.text(arena)[1])
    }

    /// Whether the pattern may match, by cheap tests: of thousands of rules, few pass them.
    #[inline]
    pub(super) fn may_match(&self, path: &Path<'_>) -> bool {
        path.bytes().len() >= self.literal as usize
            && (self.is_literal() || path.byte_set().includes(self.byte_set))
    }

    /// Its longest literal behind a wildcard, which every matching path contains. `None` if there
    /// is none, or each has two forms.
    pub(super) fn needle<'a>(&self, arena: &'a Arena) -> Option<&'a [u8]> {
        let literals = |span| arena.get(span).split(|byte| *byte == STAR).skip(1);
        let of_one_form =
            literals(self.normal).zip(literals(self.in_query)).filter(|(a, b)| a == b);
        let needles = of_one_form.map(|(needle, _)| needle).filter(|needle| !needle.is_empty());
        needles.max_by_key(|needle| needle.len())
    }

    fn has_two_forms(&self) -> bool {
        self.normal != self.in_query
    }

    /// Whether it has no wildcard.
    fn is_literal(&self) -> bool {
        self.prefix == self.normal.length()
    }

    /// Whether it matches every path that begins with its bytes.
    pub(super) fn is_prefix(&self) -> bool {
        self.is_literal() && !self.anchored && !self.has_two_forms()
    }

    /// Whether it matches every path: `/`, or nothing but wildcards around it.
    pub(super) fn matches_everything(&self) -> bool {
        !self.anchored && self.literal == self.prefix && self.literal <= 1
    }

    /// Whether it matches every path that begins with `begin` (`Some(true)`) or none of them
    /// (`Some(false)`). `None`: it depends on the rest, or would take too many steps to find out.
    pub(super) fn foresees(&self, begin: &Path<'_>, arena: &Arena) -> Option<bool> {
        // Without an anchor, further bytes cannot undo a match.
        let matches = || {
            // Unbounded steps: only replay calls this, and delays no other request.
            let steps = &mut Steps::without_bound();
            self.head(arena).admits(begin.head())
                && self.may_match(begin)
                && self.matches_in_full(begin, arena, steps).unwrap_or(false)
        };
        if !self.anchored && matches() {
            return Some(true);
        }
        let shown = (self.prefix as usize).min(begin.bytes().len());
        let (in_path, in_query) =
            (&arena.get(self.normal)[..shown], &arena.get(self.in_query)[..shown]);
        let fits = Literal { in_path, in_query }.is_at(0, begin);
        if fits { None } else { Some(false) }
    }

    /// Whether the pattern matches a path that has passed the cheap tests.
    pub(super) fn matches_in_full(
        &self,
        path: &Path<'_>,
        arena: &Arena,
        steps: &mut Steps,
    ) -> Result<bool, StepsExceeded> {
        let (normal, in_query) = (arena.get(self.normal), arena.get(self.in_query));
        let literal = |range: Range<usize>| Literal {
            in_path: &normal[range.clone()],
            in_query: &in_query[range],
        };
        let prefix = self.prefix as usize;
        steps.search(prefix, 0)?;
        if !literal(0..prefix).is_at(0, path) {
            return Ok(false);
        }
        let Some(last_star) = memrchr(STAR, normal) else {
            return Ok(!self.anchored || prefix == path.bytes().len());
        };
        let mut at = prefix;
        if prefix < last_star {
            for middle in literal(prefix + 1..last_star).split_at_stars() {
                let Some(end) = middle.find_end(at, path, steps)? else { return Ok(false) };
                at = end;
            }
        }
        let last = literal(last_star + 1..normal.len());
        if self.anchored {
            steps.search(normal.len() - last_star, 0)?;
            return Ok(last.is_suffix(at, path));
        }
        Ok(last.find_end(at, path, steps)?.is_some())
    }
}

/// The normal form of a pattern, wildcards as [`STAR`], and its length in bytes.
fn normalise(written: &[u8], dialect: &Dialect) -> (Vec<u8>, u32) {
    if path::is_plain(written) {
        return (written.to_vec(), count(written.len()));
    }
    let mut normal = Vec::with_capacity(written.len());
    let mut bytes = 0;
    for item in Items(written) {
        bytes += item.bytes(dialect.percent);
        if !(dialect.wildcards && item == WILDCARD) {
            item.write(dialect.percent, &mut normal);
        } else if normal.last() != Some(&STAR) {
            normal.push(STAR);
        }
    }
    (normal, bytes)
}

fn has_forbidden_byte(written: &[u8], dialect: &Dialect) -> bool {
    dialect.control_bytes == ControlBytes::DropRule
        && written.iter().any(|&byte| byte.is_ascii_control() && byte != b'\t')
}

/// The bytes between two wildcards, in the two normal forms that `%2F` and `%3F` may have: one for
/// the path of a URL, with the `?` that ends it, one for its query (D-RESERVED). Both are equally
/// long, and nearly always equal.
#[derive(Clone, Copy)]
pub(super) struct Literal<'p> {
    pub in_path: &'p [u8],
    pub in_query: &'p [u8],
}

impl<'p> Literal<'p> {
    pub(super) fn split_at_stars(self) -> impl Iterator<Item = Literal<'p>> {
        let is_star = |byte: &u8| *byte == STAR;
        let forms = self.in_path.split(is_star).zip(self.in_query.split(is_star));
        forms.map(|(in_path, in_query)| Literal { in_path, in_query })
    }

    /// Whether it occurs in `path` at `at`.
    pub(super) fn is_at(self, at: usize, path: &Path<'_>) -> bool {
        let length = self.in_path.len();
        let Some(there) = path.bytes().get(at..at + length) else { return false };
        if self.has_one_form() {
            return there == self.in_path;
        }
        let before_query = path.query().saturating_sub(at).min(length);
        there[..before_query] == self.in_path[..before_query]
            && there[before_query..] == self.in_query[before_query..]
    }

    /// Whether `path` ends with it, no earlier than at `from`.
    pub(super) fn is_suffix(self, from: usize, path: &Path<'_>) -> bool {
        let at = path.bytes().len().checked_sub(self.in_path.len());
        at.is_some_and(|at| at >= from && self.is_at(at, path))
    }

    /// The end of its leftmost occurrence in `path` from `from` on.
    pub(super) fn find_end(
        self,
        from: usize,
        path: &Path<'_>,
        steps: &mut Steps,
    ) -> Result<Option<usize>, StepsExceeded> {
        let at = if self.has_one_form() {
            find(self.in_path, path.bytes(), from)
        } else {
            self.find_by_place(from, path)
        };
        let end = at.map(|at| at + self.in_path.len());
        steps.search(self.in_path.len(), end.unwrap_or(path.bytes().len()).saturating_sub(from))?;
        Ok(end)
    }

    fn has_one_form(self) -> bool {
        ptr::eq(self.in_path, self.in_query) || self.in_path == self.in_query
    }

    /// Three regions in their order: within the path, across the `?`, within the query.
    fn find_by_place(self, from: usize, path: &Path<'_>) -> Option<usize> {
        let (bytes, query) = (path.bytes(), path.query());
        find(self.in_path, &bytes[..query], from)
            .or_else(|| self.find_across(from, path))
            .or_else(|| find(self.in_query, bytes, from.max(query)))
    }

    /// The path of a URL has no `?`, so the first one of the literal must be the end of the path.
    fn find_across(self, from: usize, path: &Path<'_>) -> Option<usize> {
        let mark = memchr(b'?', self.in_path)?;
        let at = path.query().checked_sub(mark + 1)?;
        (at >= from && self.is_at(at, path)).then_some(at)
    }
}

/// For a text this short, trying every position is faster than preparing a search.
const FEW: usize = 64;

fn find(needle: &[u8], bytes: &[u8], from: usize) -> Option<usize> {
    let bytes = bytes.get(from..)?;
    let at = match needle {
        [first, ..] if bytes.len() <= FEW => {
            let last = bytes.len().checked_sub(needle.len())?;
            (0..=last).find(|at| bytes[*at] == *first && bytes[*at..].starts_with(needle))
        }
        _ => memmem::find(bytes, needle),
    };
    at.map(|at| from + at)
}
