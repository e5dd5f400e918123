//! The path and query of a URL in the form that a dialect compares.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::{memchr, memchr_iter, memmem};

use super::arena::ByteSet;
use super::dialect::{Compared, Dialect, Percent};
use super::head;

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
        let head = head::head_number(compared);
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
            head: head::head_number(&normal),
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
    let head = head::head_number(&normal);
    (normal, head)
}

fn decode(path_and_query: &[u8], percent: Percent) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    Items(path).for_each(|item| item.write(percent, &mut out));
    let query_at = out.len();
    Items(query).for_each(|item| item.write(percent, &mut out));
    for byte in &mut out[query_at..] {
        *byte = in_query(*byte);
    }
    out
}

// The normal form in which rules and URLs are compared: one byte for each character, however it
// was spelled.
//
// Comparing values instead of spellings makes a plain search exact: nothing can match half of a
// percent-encoded triplet, and decoding can never create a new one (D-PCT). Control bytes, which
// no rule can contain literally, encode the few signs that are not plain values.

/// Encodes the wildcard `*` in a pattern. A `*` byte there is the literal character.
pub(super) const STAR: u8 = 0x00;
/// `%2F` where it differs from `/`.
pub(super) const ENCODED_SLASH: u8 = 0x01;
/// `%3F` where it differs from `?`.
pub(super) const ENCODED_QUESTION: u8 = 0x02;
/// A `%` without two hex digits, where it differs from `%25`.
const LONE_PERCENT: u8 = 0x03;

/// One character of a rule or URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The byte that it stands for.
    pub byte: u8,
    /// Spelled as `%` and two hex digits.
    pub encoded: bool,
}

/// The characters of a rule or URL in turn. Decodes once: `%2541` is `%25`, `4`, `1`.
pub(super) struct Items<'a>(pub &'a [u8]);

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let [b'%', high, low, rest @ ..] = self.0
            && let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low))
        {
            self.0 = rest;
            return Some(Item { byte: high << 4 | low, encoded: true });
        }
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(Item { byte, encoded: false })
    }
}

impl Item {
    /// Appends the normal form of a character in the path of a URL or in a rule.
    pub(super) fn write(self, percent: Percent, out: &mut Vec<u8>) {
        match (percent, self.byte, self.encoded) {
            (Percent::RulesOnly, byte, _) if self.stays_encoded(percent) => {
                out.extend([b'%', hex_digit(byte >> 4), hex_digit(byte & 0x0F)]);
            }
            (Percent::RulesOnly, byte, _) => out.push(byte),
            (_, b'/', true) => out.push(ENCODED_SLASH),
            (Percent::ByValue, b'?', true) => out.push(ENCODED_QUESTION),
            (Percent::ByValue, b'%', false) => out.push(LONE_PERCENT),
            (_, byte, _) => write_value(byte, out),
        }
    }

    /// Its length in the encoded form by which RFC 9309 §2.2.2 measures rules (D-LENGTH).
    pub(super) fn bytes(self, percent: Percent) -> u32 {
        if self.stays_encoded(percent) { 3 } else { 1 }
    }

    fn stays_encoded(self, percent: Percent) -> bool {
        match (percent, self.encoded) {
            (Percent::RulesOnly, encoded) => encoded || self.byte >= 0x80,
            (_, true) => !is_unreserved(self.byte),
            (_, false) => !is_legal(self.byte),
        }
    }
}

/// Whether each byte of a rule is its own normal form, with a length of one.
pub(super) fn is_plain(written: &[u8]) -> bool {
    written.iter().all(|&byte| is_legal(byte) && byte != b'%' && byte != b'*')
}

/// The normal form of a rule's byte in the query of a URL, where `/` and `?` have no meaning and so
/// equal their encoding (D-RESERVED).
pub(super) fn in_query(byte: u8) -> u8 {
    match byte {
        ENCODED_SLASH => b'/',
        ENCODED_QUESTION => b'?',
        other => other,
    }
}

/// A control byte becomes a pair whose halves occur nowhere else, so that a search cannot find half
/// of it or take it for a sign.
fn write_value(byte: u8, out: &mut Vec<u8>) {
    if byte.is_ascii_control() {
        out.extend([0x08 | byte >> 4, 0x10 | byte & 0x0F]);
    } else {
        out.push(byte);
    }
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether a URL may contain this byte literally (RFC 3986 §2), or it is a `%` that encodes
/// nothing.
fn is_legal(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)
}

fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn hex_digit(value: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(value & 15)]
}

/// The path, and the query with its `?`.
pub(super) fn split_query(path_and_query: &[u8]) -> (&[u8], &[u8]) {
    path_and_query.split_at(memchr(b'?', path_and_query).unwrap_or(path_and_query.len()))
}

/// Whether a path has a dot segment.
pub(super) fn has_dot_segment(path: &[u8]) -> bool {
    let begins_segment = |dot: usize| dot > 0 && path[dot - 1] == b'/';
    memchr_iter(b'.', path).filter(|dot| begins_segment(*dot)).any(|dot| {
        let after = path[dot + 1..].strip_prefix(b".").unwrap_or(&path[dot + 1..]);
        matches!(after.first(), None | Some(b'/'))
    })
}

/// RFC 3986 §5.2.4, for a path that begins with `/`.
pub(super) fn remove_dot_segments(path_and_query: &[u8]) -> Vec<u8> {
    let (path, query) = split_query(path_and_query);
    let mut out = Vec::with_capacity(path_and_query.len());
    let mut segments = path[1..].split(|&byte| byte == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => out.truncate(out.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
            _ => {
                out.push(b'/');
                out.extend(segment);
                continue;
            }
        }
        // A dot segment at the end leaves the directory that it names.
        if last {
            out.push(b'/');
        }
    }
    out.extend(query);
    out
}

const EACH: u64 = u64::from_ne_bytes([1; size_of::<u64>()]);
const HIGH_BITS: u64 = 0x80 * EACH;

/// Whether a path is certainly its own normal form without dot segments: all its bytes are from `&`
/// to `~`, which excludes `%` and control bytes, and none of its segments begins with a dot. `path`
/// begins with `/`, and its first bytes are `head`.
#[inline]
pub(super) fn is_ordinary(path: &[u8], head: u64) -> bool {
    let Some(last) = path.last_chunk() else {
        // Pads with bytes that need no normalising.
        let padding =
            (u64::from(b'/') * EACH).checked_shr(8 * path.len() as u32).unwrap_or_default();
        return marks(head | padding, 0) & HIGH_BITS == 0;
    };
    let (mut found, mut before) = (0, 0);
    for bytes in path.as_chunks().0 {
        let bytes = u64::from_be_bytes(*bytes);
        found |= marks(bytes, before);
        before = bytes;
    }
    // The last chunks overlap, so some bytes are checked twice; the first one's predecessor is
    // known.
    found |= marks(u64::from_be_bytes(*last), 0);
    found & HIGH_BITS == 0
}

/// Has a high bit set if a byte may need normalising; not always at its position, because carries
/// propagate. `before` holds the preceding bytes.
const fn marks(bytes: u64, before: u64) -> u64 {
    let below = bytes.wrapping_sub(b'&' as u64 * EACH);
    let above = bytes | bytes.wrapping_add((0x7F - b'~' as u64) * EACH);
    let each_before = bytes >> 8 | before << (u64::BITS - 8);
    let other_than_dots_after_slash =
        (bytes ^ (b'.' as u64 * EACH)) | (each_before ^ (b'/' as u64 * EACH));
    below | above | other_than_dots_after_slash.wrapping_sub(EACH)
}

#[cfg(test)]
mod marks_tests {
    use super::*;
    use crate::head;

    #[test]
    fn what_asks_for_a_second_look_is_seen_wherever_it_stands() {
        for length in 1..50 {
            let plain = [b"/", vec![b'a'; length - 1].as_slice()].concat();
            for at in 1..length {
                let with = |bytes: &[u8]| {
                    let mut path = plain.clone();
                    path[at + 1 - bytes.len()..=at].copy_from_slice(bytes);
                    is_ordinary(&path, head::head_number(&path))
                };
                for byte in 0..=u8::MAX {
                    let is_plain = (b'&'..=b'~').contains(&byte);
                    let here = format!("{byte} at {at} of {length}");
                    assert_eq!(with(&[byte]), is_plain && (byte != b'.' || at > 1), "{here}");
                    assert_eq!(
                        with(&[b'/', byte]),
                        is_plain && byte != b'.',
                        "{here}, after a slash"
                    );
                }
            }
        }
    }
}
