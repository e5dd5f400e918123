//! The form in which rules and URLs are compared: one octet for each character, however it was spelled.
//!
//! Comparing values instead of spellings makes a plain search exact: nothing can match half of a
//! percent-encoded triplet, and decoding can never make a new one (D-PCT). The control octets, which
//! no rule can have as themselves, carry the few signs that are not plain values.

use super::dialect::Percent;

/// Stands for the wildcard `*` in a pattern. A `*` octet there is the character itself.
pub(super) const STAR: u8 = 0x00;
/// `%2F` where it is not the same as `/`.
pub(super) const ENCODED_SLASH: u8 = 0x01;
/// `%3F` where it is not the same as `?`.
pub(super) const ENCODED_QUESTION: u8 = 0x02;
/// A `%` without two hex digits, where it is not the same as `%25`.
const LONE_PERCENT: u8 = 0x03;

/// One character of a rule or URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub octet: u8,
    /// Spelled as `%` and two hex digits.
    pub encoded: bool,
}

/// The characters of a rule or URL in turn. One round of decoding: `%2541` is `%25`, `4`, `1`.
pub(super) struct Items<'a>(pub &'a [u8]);

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if let [b'%', high, low, rest @ ..] = self.0
            && let (Some(high), Some(low)) = (hex_value(*high), hex_value(*low))
        {
            self.0 = rest;
            return Some(Item { octet: high << 4 | low, encoded: true });
        }
        let (&octet, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(Item { octet, encoded: false })
    }
}

impl Item {
    /// Appends the normal form, as it stands in the path of a URL and in a rule.
    pub(super) fn write(self, percent: Percent, out: &mut Vec<u8>) {
        match (percent, self.octet, self.encoded) {
            (Percent::RulesOnly, octet, _) if self.stays_encoded(percent) => {
                out.extend([b'%', hex_digit(octet >> 4), hex_digit(octet & 0x0F)]);
            }
            (Percent::RulesOnly, octet, _) => out.push(octet),
            (_, b'/', true) => out.push(ENCODED_SLASH),
            (Percent::ByValue, b'?', true) => out.push(ENCODED_QUESTION),
            (Percent::ByValue, b'%', false) => out.push(LONE_PERCENT),
            (_, octet, _) => write_value(octet, out),
        }
    }

    /// How many octets this is in the encoded form that RFC 9309 §2.2.2 measures rules by (D-LENGTH).
    pub(super) fn octets(self, percent: Percent) -> u32 {
        if self.stays_encoded(percent) { 3 } else { 1 }
    }

    fn stays_encoded(self, percent: Percent) -> bool {
        match (percent, self.encoded) {
            (Percent::RulesOnly, encoded) => encoded || self.octet >= 0x80,
            (_, true) => !is_unreserved(self.octet),
            (_, false) => !is_legal(self.octet),
        }
    }
}

/// Whether each of a rule's octets is its own normal form, and one octet of its length.
pub(super) fn is_plain(written: &[u8]) -> bool {
    written.iter().all(|&octet| is_legal(octet) && octet != b'%' && octet != b'*')
}

/// What `octet` of a rule's normal form is in the query of a URL, where `/` and `?` mean nothing
/// and so are the same as their encoding (D-RESERVED).
pub(super) fn in_query(octet: u8) -> u8 {
    match octet {
        ENCODED_SLASH => b'/',
        ENCODED_QUESTION => b'?',
        other => other,
    }
}

/// A control octet becomes a pair whose halves stand nowhere else, so that a search cannot find
/// half of it or take it for a sign.
fn write_value(octet: u8, out: &mut Vec<u8>) {
    if octet.is_ascii_control() {
        out.extend([0x08 | octet >> 4, 0x10 | octet & 0x0F]);
    } else {
        out.push(octet);
    }
}

/// RFC 3986 §2.3.
fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"-._~".contains(&octet)
}

/// Whether a URL may have this octet as itself (RFC 3986 §2), or it is a `%` that encodes nothing.
fn is_legal(octet: u8) -> bool {
    octet.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&octet)
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
