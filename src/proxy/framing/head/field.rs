//! One field line, of a head or behind chunks (RFC 9112 §5, §7.1.2).

use crate::proxy::request::char_class::{CAPITAL, SMALL, TOKEN, is};

/// A field line (RFC 9112 §5).
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Whether the name has a capital at its beginning and behind each hyphen, and no other.
    pub in_title_case: bool,
}

/// Reads a field line, or says the rule it breaks.
pub fn field(line: &[u8]) -> Result<Field<'_>, &'static str> {
    let (length, in_title_case) = name(line);
    let (name, rest) = line.split_at(length);
    let Some(value) = rest.strip_prefix(b":").filter(|_| !name.is_empty()) else {
        return Err(name_fault(line));
    };
    let value = trim(value);
    if has_control(value) {
        return Err("has a control character in its value (RFC 9110 §5.5)");
    }
    Ok(Field { name, value, in_title_case })
}

/// The length of the token that `line` begins with, and whether it is in title case.
fn name(line: &[u8]) -> (usize, bool) {
    let (mut in_title_case, mut misplaced) = (true, SMALL);
    for (at, byte) in line.iter().enumerate() {
        if !is(*byte, TOKEN) {
            return (at, in_title_case);
        }
        in_title_case &= !is(*byte, misplaced);
        misplaced = if *byte == b'-' { SMALL } else { CAPITAL };
    }
    (line.len(), in_title_case)
}

/// Why a line does not begin with a field name and a colon.
fn name_fault(line: &[u8]) -> &'static str {
    if line.starts_with(b" ") || line.starts_with(b"\t") {
        return "begins with a blank: folded lines are obsolete (RFC 9112 §5.2)";
    }
    match memchr::memchr(b':', line) {
        None => "has no colon (RFC 9112 §5)",
        Some(colon) if line[..colon].last().is_some_and(u8::is_ascii_whitespace) => {
            "has a blank before the colon (RFC 9112 §5.1)"
        }
        Some(_) => "has a name that is no token (RFC 9110 §5.1)",
    }
}

/// Without an early return, so that the compiler checks many bytes at once.
fn has_control(value: &[u8]) -> bool {
    value.iter().fold(false, |found, byte| found | (byte.is_ascii_control() & (*byte != b'\t')))
}

/// Optional whitespace around a value (RFC 9110 §5.6.3): a carriage return is none.
fn trim(value: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(begin, |last| last + 1);
    &value[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_case_is_what_the_engine_writes_by_itself() {
        for (field, expected) in [
            ("User-Agent", true),
            ("Te", true),
            ("X-1a-_b--C", true),
            ("user-agent", false),
            ("User-agent", false),
            ("DNT", false),
            ("ETag", false),
            ("X-1A", false),
        ] {
            assert_eq!(name(field.as_bytes()), (field.len(), expected), "{field}");
        }
    }
}
