//! The URL's side of a comparison: its path and query in the form a dialect compares.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::dialect::{Compared, Dialect, Percent};
use super::normal::{self, Items};

/// A URL's path and query in the form one dialect compares. An ordinary path is borrowed.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    given: &'a [u8],
    normal: Cow<'a, [u8]>,
    /// Where in `normal` the query begins, after its `?`; the end, when there is none.
    query: usize,
    head: u64,
}

impl<'a> Path<'a> {
    /// `path_and_query` begins with `/`; if not, it is read as if it did.
    pub fn new(path_and_query: &'a [u8], dialect: &Dialect) -> Path<'a> {
        let compared = match dialect.compared {
            Compared::PathAndQuery => path_and_query,
            Compared::Path => split_query(path_and_query).0,
        };
        let normal = normalise(rooted(compared), dialect);
        let query = match dialect.percent {
            // The path of this dialect may have a decoded `?`, and its query is not compared.
            Percent::ByValueExceptSlash => normal.len(),
            _ => memchr(b'?', &normal).map_or(normal.len(), |mark| mark + 1),
        };
        Path { given: path_and_query, head: head(&normal), normal, query }
    }

    /// Whether this is `/robots.txt` itself, which is implicitly allowed (RFC 9309 §2.2.2). A query
    /// makes it a URL like others (D-SELF), and so does any other spelling.
    pub fn is_robots_txt(&self) -> bool {
        self.given == b"/robots.txt"
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.normal
    }

    pub(super) fn query(&self) -> usize {
        self.query
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }
}

/// Path, parameters and query of a URL given as raw octets, absolute or already without scheme and
/// authority. The fragment is cut; `/` where there is no path.
pub fn path_of_url(url: &[u8]) -> Cow<'_, [u8]> {
    let without_fragment = &url[..memchr(b'#', url).unwrap_or(url.len())];
    let after_slashes = without_fragment.strip_prefix(b"//").unwrap_or(without_fragment);
    let authority = match memmem::find(after_slashes, b"://") {
        // A `://` after the path, parameters or query began is a part of them.
        Some(scheme) if path_start(after_slashes) >= scheme => &after_slashes[scheme + 3..],
        _ => after_slashes,
    };
    rooted(&authority[path_start(authority)..])
}

fn path_start(octets: &[u8]) -> usize {
    octets.iter().position(|octet| b"/?;".contains(octet)).unwrap_or(octets.len())
}

fn rooted(path: &[u8]) -> Cow<'_, [u8]> {
    if path.starts_with(b"/") { Cow::Borrowed(path) } else { Cow::Owned([b"/", path].concat()) }
}

/// The path, and the query with its `?`.
fn split_query(path_and_query: &[u8]) -> (&[u8], &[u8]) {
    path_and_query.split_at(memchr(b'?', path_and_query).unwrap_or(path_and_query.len()))
}

fn normalise<'a>(given: Cow<'a, [u8]>, dialect: &Dialect) -> Cow<'a, [u8]> {
    let decoded = match dialect.percent {
        Percent::RulesOnly => given,
        _ if normal::is_normal(&given) => given,
        percent => Cow::Owned(decode(&given, percent)),
    };
    if dialect.removes_dot_segments && has_dot_segment(split_query(&decoded).0) {
        Cow::Owned(remove_dot_segments(&decoded))
    } else {
        decoded
    }
}

fn decode(path_and_query: &[u8], percent: Percent) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    Items(path).for_each(|item| item.write(percent, &mut out));
    let query_at = out.len();
    Items(query).for_each(|item| item.write(percent, &mut out));
    for octet in &mut out[query_at..] {
        *octet = normal::in_query(*octet);
    }
    out
}

fn has_dot_segment(path: &[u8]) -> bool {
    path.split(|&octet| octet == b'/').any(|segment| segment == b"." || segment == b"..")
}

/// RFC 3986 §5.2.4, for a path that begins with `/`.
fn remove_dot_segments(path_and_query: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    let mut segments = path[1..].split(|&octet| octet == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => out.truncate(out.iter().rposition(|&octet| octet == b'/').unwrap_or(0)),
            _ => {
                out.push(b'/');
                out.extend(segment);
                continue;
            }
        }
        // A dot segment at the end leaves the directory it names.
        if last {
            out.push(b'/');
        }
    }
    out.extend(query);
    out
}

/// The first eight octets as one number, so that most rules are refused in one comparison.
pub(super) fn head(octets: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = octets.len().min(head.len());
    head[..length].copy_from_slice(&octets[..length]);
    u64::from_le_bytes(head)
}
