//! Splits a file into numbered lines (RFC 9309 §2.2), and classifies them.

use memchr::{memchr, memchr2};

use super::dialect::{ControlBytes, Dialect, Keys};

/// The most bytes parsed, whatever the dialect says, so that positions fit into 32 bits.
const SIZE_MAX: usize = 256 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const USER_AGENT_HEADS: [&str; 3] = ["user-agent", "useragent", "user agent"];
const DISALLOW_HEADS: [&str; 6] =
    ["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"];

/// A line by kind, without its comment and without blanks around key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Blank,
    Comment,
    Record { key: Key<'a>, value: &'a [u8] },
    NoRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    UserAgent,
    Allow,
    Disallow,
    Other(&'a [u8]),
}

/// The lines of `body` that are parsed, numbered from 1. CR, LF and CR LF end a line (RFC 9309
/// §2.2, `EOL`).
pub fn lines<'a>(
    body: &'a [u8],
    dialect: &Dialect,
) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
    let mut rest = Some(without_byte_order_mark(within_size(body, dialect), dialect));
    let lines = std::iter::from_fn(move || {
        let bytes = rest?;
        let end = memchr2(b'\r', b'\n', bytes);
        rest = end.map(|end| &bytes[end + if bytes[end..].starts_with(b"\r\n") { 2 } else { 1 }..]);
        Some(&bytes[..end.unwrap_or(bytes.len())])
    });
    (1..).zip(lines)
}

/// Bytes beyond the limit are not parsed, and a line that it truncates is dropped (RFC 9309 §2.5,
/// D-SIZE).
fn within_size<'a>(body: &'a [u8], dialect: &Dialect) -> &'a [u8] {
    let limit = dialect.size_limit.min(SIZE_MAX);
    let (Some(kept), Some(next)) = (body.get(..limit), body.get(limit)) else { return body };
    if is_line_end(*next) {
        return kept;
    }
    let last_end = kept.iter().rposition(|&byte| is_line_end(byte));
    &kept[..last_end.unwrap_or(0)]
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

fn without_byte_order_mark<'a>(body: &'a [u8], dialect: &Dialect) -> &'a [u8] {
    if dialect.skips_partial_bom {
        let same = body.iter().zip(BYTE_ORDER_MARK).take_while(|(byte, mark)| byte == mark).count();
        &body[same..]
    } else {
        body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body)
    }
}

impl<'a> Line<'a> {
    /// Parses one line, given without its end.
    pub(super) fn read(bytes: &'a [u8], dialect: &Dialect) -> Line<'a> {
        let bytes = effective(bytes, dialect);
        let before_comment = &bytes[..memchr(b'#', bytes).unwrap_or(bytes.len())];
        let text = trim(before_comment, dialect);
        if text.is_empty() {
            return if trim(bytes, dialect).is_empty() { Line::Blank } else { Line::Comment };
        }
        let Some(separator) = separator(text, dialect) else { return Line::NoRecord };
        match trim(&text[..separator], dialect) {
            b"" => Line::NoRecord,
            key => Line::Record {
                key: Key::read(key, dialect.keys),
                value: trim(&text[separator + 1..], dialect),
            },
        }
    }
}

impl<'a> Key<'a> {
    fn read(key: &'a [u8], keys: Keys) -> Key<'a> {
        let is = |names: &[&str]| match keys {
            Keys::Exact => key.eq_ignore_ascii_case(names[0].as_bytes()),
            Keys::ByHead => names.iter().any(|name| begins_with(key, name.as_bytes())),
        };
        if is(&USER_AGENT_HEADS) {
            Key::UserAgent
        } else if is(&["allow"]) {
            Key::Allow
        } else if is(&DISALLOW_HEADS) {
            Key::Disallow
        } else {
            Key::Other(key)
        }
    }
}

/// The bytes of a line that count.
fn effective<'a>(bytes: &'a [u8], dialect: &Dialect) -> &'a [u8] {
    let bytes = &bytes[..dialect.line_limit.unwrap_or(bytes.len()).min(bytes.len())];
    match dialect.control_bytes {
        ControlBytes::EndLineAtNul => &bytes[..memchr(0, bytes).unwrap_or(bytes.len())],
        ControlBytes::DropRule => bytes,
    }
}

/// The position of the colon; or of the blank between exactly two words, if the dialect accepts
/// that (D-COLON).
fn separator(text: &[u8], dialect: &Dialect) -> Option<usize> {
    if let Some(colon) = memchr(b':', text) {
        return Some(colon);
    }
    let blank = memchr2(b' ', b'\t', text).filter(|_| dialect.colon_may_be_missing)?;
    memchr2(b' ', b'\t', text[blank..].trim_ascii_start()).is_none().then_some(blank)
}

fn trim<'a>(bytes: &'a [u8], dialect: &Dialect) -> &'a [u8] {
    let is_blank = |byte: &u8| match dialect.control_bytes {
        // RFC 9309 §2.2: `WS = %x20 / %x09`.
        ControlBytes::DropRule => matches!(byte, b' ' | b'\t'),
        ControlBytes::EndLineAtNul => matches!(byte, b' ' | b'\t'..=b'\r'),
    };
    let Some(start) = bytes.iter().position(|byte| !is_blank(byte)) else { return &[] };
    let end = bytes.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &bytes[start..end]
}

fn begins_with(key: &[u8], head: &[u8]) -> bool {
    key.get(..head.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(body: &str, dialect: &Dialect) -> Vec<(u32, String)> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        lines(body.as_bytes(), dialect).map(|(number, bytes)| (number, text(bytes))).collect()
    }

    #[test]
    fn cr_and_lf_and_both_end_one_line() {
        let lines = numbered("a\rb\nc\r\nd\n\re", &Dialect::RFC9309);
        let expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, "e")];
        assert_eq!(lines, expected.map(|(number, text)| (number, text.to_owned())));
    }

    #[test]
    fn a_line_that_the_size_limit_cuts_is_dropped() {
        let limited =
            |size_limit| numbered("ab\r\ncd", &Dialect { size_limit, ..Dialect::RFC9309 });
        let texts = |size_limit| {
            let texts = limited(size_limit).into_iter().map(|(_, text)| text);
            texts.filter(|text| !text.is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(texts(1), [""; 0]);
        assert_eq!(texts(2), ["ab"]);
        assert_eq!(texts(3), ["ab"]);
        assert_eq!(texts(5), ["ab"]);
        assert_eq!(texts(6), ["ab", "cd"]);
    }

    #[track_caller]
    fn reads(line: &str, dialect: &Dialect, expected: Line<'_>) {
        assert_eq!(Line::read(line.as_bytes(), dialect), expected, "{line:?}");
    }

    #[test]
    fn keys_are_exact_or_by_head() {
        let disallow = Line::Record { key: Key::Disallow, value: b"/a" };
        reads(" DISALLOW\t: /a # why", &Dialect::RFC9309, disallow);
        reads("disalow: /a", &Dialect::GOOGLE, disallow);
        reads("disallowed: /a", &Dialect::GOOGLE, disallow);
        reads("disallow /a", &Dialect::GOOGLE, disallow);
        let other = |key| Line::Record { key: Key::Other(key), value: b"/a" };
        reads("disalow: /a", &Dialect::RFC9309, other(b"disalow"));
        reads("disallowed: /a", &Dialect::RFC9309, other(b"disallowed"));
        reads("disallow /a", &Dialect::RFC9309, Line::NoRecord);
        reads("disallow /a b", &Dialect::GOOGLE, Line::NoRecord);
    }

    #[test]
    fn a_line_with_only_a_comment_is_not_blank() {
        reads(" \t", &Dialect::KOSTER_1996, Line::Blank);
        reads(" # a", &Dialect::KOSTER_1996, Line::Comment);
    }

    #[test]
    fn a_line_without_a_key_is_no_record() {
        reads(": /a", &Dialect::RFC9309, Line::NoRecord);
        reads("disallow", &Dialect::GOOGLE, Line::NoRecord);
    }
}
