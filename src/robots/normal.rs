//! The normal form in which rules and URLs are compared: one byte for each character, however it
//! was spelled.
//!
//! Comparing values instead of spellings makes a plain search exact: nothing can match half of a
//! percent-encoded triplet, and decoding can never create a new one (D-PCT). Control bytes, which
//! no rule can contain literally, encode the few signs that are not plain values.

use super::dialect::Percent;

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
