//! The path and query of a URL in the form that a dialect compares.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::normal::{ENCODED_QUESTION, ENCODED_SLASH};
    use super::*;

    fn compared(path: &[u8]) -> Vec<u8> {
        Path::new(path, &Dialect::RFC9309).bytes().to_vec()
    }

    #[test]
    fn an_ordinary_path_is_borrowed() {
        for path in ["/", "/a/b.html?c=d/e&f=..", "/.well-known/x", "/*$", "/ünencoded \""] {
            let path = Path::new(path.as_bytes(), &Dialect::RFC9309);
            assert!(matches!(path.normal, Cow::Borrowed(_)), "{path:?}");
        }
    }

    #[test]
    fn dot_segments_of_the_path_are_removed_encoded_or_not() {
        for (given, expected) in [
            ("/a/../b", "/b"),
            ("/a/./b/.", "/a/b/"),
            ("/a/%2E%2e", "/"),
            ("/../../a//..", "/a/"),
            ("/...a/..b", "/...a/..b"),
            ("/a?b/../c", "/a?b/../c"),
        ] {
            assert_eq!(compared(given.as_bytes()), expected.as_bytes(), "{given}");
        }
    }

    #[test]
    fn slash_and_question_mark_are_their_encodings_in_the_query_only() {
        let expected = [b'/', b'a', ENCODED_SLASH, ENCODED_QUESTION, b'?', b'/', b'?'];
        assert_eq!(compared(b"/%61%2f%3f?%2F%3F"), expected);
    }

    #[test]
    fn what_is_no_path_is_read_as_one() {
        assert_eq!(compared(b""), b"/");
        assert_eq!(compared(b"*"), b"/*");
        assert_eq!(compared(b"?a"), b"/?a");
    }

    #[test]
    fn only_robots_txt_itself_is_robots_txt() {
        let is_robots_txt =
            |path: &str| Path::new(path.as_bytes(), &Dialect::RFC9309).is_robots_txt();
        assert!(is_robots_txt("/robots.txt"));
        for other in
            ["/robots.txt?", "/robots.txt/", "/Robots.txt", "/robots%2Etxt", "/a/../robots.txt"]
        {
            assert!(!is_robots_txt(other), "{other}");
        }
    }

    #[test]
    fn the_path_of_a_url_begins_where_its_authority_ends() {
        for (url, path) in [
            ("https://www.example.com", "/"),
            ("https://www.example.com/a?b#c", "/a?b"),
            ("https://www.example.com?a", "/?a"),
            ("https://www.example.com;a", "/;a"),
            ("https://www.example.com#/a", "/"),
            ("//www.example.com/a", "/a"),
            ("www.example.com/a?u=http://b", "/a?u=http://b"),
            ("/a?u=http://b", "/a?u=http://b"),
            ("", "/"),
        ] {
            assert_eq!(path_of_url(url.as_bytes()), path.as_bytes(), "{url}");
        }
    }

    /// Spells a normal form in the plainest equivalent way: nearly everything encoded.
    fn spell(normal: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut bytes = normal.iter();
        while let Some(&byte) = bytes.next() {
            let value = match byte {
                b'/' | b'?' => {
                    out.push(byte);
                    continue;
                }
                0x03 => {
                    out.push(b'%');
                    continue;
                }
                ENCODED_SLASH => b'/',
                ENCODED_QUESTION => b'?',
                0x08..=0x0F => (byte & 7) << 4 | bytes.next().expect("a pair") & 0x0F,
                other => other,
            };
            out.extend(format!("%{value:02x}").bytes());
        }
        out
    }

    proptest! {
        #[test]
        fn normalising_twice_is_normalising_once(
            path in "/([a%/?.]|%2[0-9Ff]|%3[Ff]|%7[Ff]|%0a|[ -~]){0,20}",
        ) {
            let once = compared(path.as_bytes());
            prop_assert_eq!(compared(&spell(&once)), once);
        }
    }
}
