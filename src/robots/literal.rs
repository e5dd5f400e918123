//! The literal parts of a path pattern, between its wildcards, and their occurrences in a path.

use std::ptr;

use memchr::{memchr, memmem};

use super::normal::STAR;
use super::path::Path;
use super::steps::{Steps, StepsExceeded};

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
