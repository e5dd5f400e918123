//! The path and query of a URL in the form that a dialect compares.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::{memchr, memmem};

use super::byte_set::ByteSet;
use super::dialect::{Compared, Dialect, Percent};
use super::dots::{has_dot_segment, remove_dot_segments, split_query};
use super::head;
use super::marks::is_ordinary;
use super::normal::{self, Items};

/// A URL's path and query in the form that one dialect compares. An ordinary path is borrowed.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    normal: Cow<'a, [u8]>,
    head: u64,
    is_robots_txt: bool,
    /// Whether it is in lower case, to be compared with lower-case rules.
    is_folded: bool,
    /// Whether the query begins at the first `?`.
    has_query: bool,
    /// Computed when a pattern with two forms needs it.
    query: OnceCell<usize>,
    /// Computed when a pattern with wildcards needs it.
    byte_set: OnceCell<ByteSet>,
}

impl<'a> Path<'a> {
    /// `path_and_query` should begin with `/`; if not, one is assumed.
    #[inline(always)]
    pub fn new(path_and_query: &'a [u8], dialect: &Dialect) -> Path<'a> {
        let compared = match dialect.compared {
            Compared::PathAndQuery => path_and_query,
            Compared::Path => split_query(path_and_query).0,
        };
        let head = head::number(compared);
        let (normal, head) = if compared.starts_with(b"/") && is_ordinary(compared, head) {
            (Cow::Borrowed(compared), head)
        } else {
            normalise(compared, dialect)
        };
        Path {
            normal,
            head,
            is_robots_txt: path_and_query == b"/robots.txt",
            is_folded: false,
            // In this dialect the path may have a decoded `?`, and its query is not compared.
            has_query: dialect.percent != Percent::ByValueExceptSlash,
            query: OnceCell::new(),
            byte_set: OnceCell::new(),
        }
    }

    /// Whether this is `/robots.txt` itself, which is implicitly allowed (RFC 9309 §2.2.2). With a
    /// query (D-SELF) or in another spelling it is an ordinary URL.
    pub fn is_robots_txt(&self) -> bool {
        self.is_robots_txt
    }

    /// The same in lower case.
    pub(super) fn folded(&self) -> Path<'static> {
        let normal = self.normal.to_ascii_lowercase();
        Path {
            head: head::number(&normal),
            normal: Cow::Owned(normal),
            is_folded: true,
            byte_set: OnceCell::new(),
            query: self.query.clone(),
            ..*self
        }
    }

    pub(super) fn is_folded(&self) -> bool {
        self.is_folded
    }

    pub(super) fn has_upper(&self) -> bool {
        self.normal.iter().any(u8::is_ascii_uppercase)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.normal
    }

    /// The position after the `?` of the query; the end, if there is none.
    pub(super) fn query(&self) -> usize {
        *self.query.get_or_init(|| {
            let mark = if self.has_query { memchr(b'?', &self.normal) } else { None };
            mark.map_or(self.normal.len(), |mark| mark + 1)
        })
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    pub(super) fn byte_set(&self) -> ByteSet {
        *self.byte_set.get_or_init(|| ByteSet::of(self.normal.iter()))
    }
}

/// Path, parameters and query of a URL given as raw bytes, absolute or already without scheme and
/// authority. The fragment is removed; `/` if there is no path.
pub fn path_of_url(url: &[u8]) -> Cow<'_, [u8]> {
    let without_fragment = &url[..memchr(b'#', url).unwrap_or(url.len())];
    let after_slashes = without_fragment.strip_prefix(b"//").unwrap_or(without_fragment);
    let authority = match memmem::find(after_slashes, b"://") {
        // A `://` after the beginning of path, parameters or query is a part of them.
        Some(scheme) if path_start(after_slashes) >= scheme => &after_slashes[scheme + 3..],
        _ => after_slashes,
    };
    rooted(&authority[path_start(authority)..])
}

fn path_start(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| b"/?;".contains(byte)).unwrap_or(bytes.len())
}

fn rooted(path: &[u8]) -> Cow<'_, [u8]> {
    if path.starts_with(b"/") { Cow::Borrowed(path) } else { Cow::Owned([b"/", path].concat()) }
}

/// The normal form of a path that may need normalising, and its head.
#[cold]
fn normalise<'a>(compared: &'a [u8], dialect: &Dialect) -> (Cow<'a, [u8]>, u64) {
    let given = rooted(compared);
    let is_normal = |byte: &u8| *byte != b'%' && !byte.is_ascii_control();
    let decoded = match dialect.percent {
        Percent::RulesOnly => given,
        _ if given.iter().all(is_normal) => given,
        percent => Cow::Owned(decode(&given, percent)),
    };
    let normal = if dialect.removes_dot_segments && has_dot_segment(split_query(&decoded).0) {
        Cow::Owned(remove_dot_segments(&decoded))
    } else {
        decoded
    };
    let head = head::number(&normal);
    (normal, head)
}

fn decode(path_and_query: &[u8], percent: Percent) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    Items(path).for_each(|item| item.write(percent, &mut out));
    let query_at = out.len();
    Items(query).for_each(|item| item.write(percent, &mut out));
    for byte in &mut out[query_at..] {
        *byte = normal::in_query(*byte);
    }
    out
}
