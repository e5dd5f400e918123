//! Makes untrusted text safe for one line of a record: bounded, without control characters, and
//! such that the bytes can be recovered.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter, Write as _};

use sha2::{Digest, Sha256};

/// A URL: percent-encodes what is not printable ASCII, which by RFC 9309 §2.2.2 is the same URL.
pub fn url(bytes: &[u8], bytes_max: usize) -> String {
    let mut text = String::with_capacity(bytes.len().min(bytes_max));
    for byte in bytes.iter().take(bytes_max) {
        match byte {
            0x21..=0x7e => text.push(char::from(*byte)),
            _ => push_hex(&mut text, "%", *byte),
        }
    }
    bounded(text, bytes, bytes_max)
}

/// Any other text: `\xHH` for a byte that is not UTF-8, or belongs to a character that could move a
/// cursor or change the writing direction on a terminal; `\\` for a backslash.
pub fn text(bytes: &[u8], bytes_max: usize) -> String {
    let mut text = String::with_capacity(bytes.len().min(bytes_max));
    for chunk in bytes[..bytes.len().min(bytes_max)].utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                _ if misleads(character) => {
                    character
                        .encode_utf8(&mut [0; 4])
                        .bytes()
                        .for_each(|byte| push_hex(&mut text, "\\x", byte));
                }
                _ => text.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hex(&mut text, "\\x", *byte));
    }
    bounded(text, bytes, bytes_max)
}

/// A text that should be safe already, as from a record, which may have been edited since: `escape`
/// replaces what could move a cursor; everything else stays.
pub fn shown(text: &str, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(misleads) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().fold(String::new(), |mut shown, character| {
        if misleads(character) {
            escape(&mut shown, character)
        } else {
            shown.push(character)
        }
        shown
    });
    Cow::Owned(shown)
}

/// In JSON syntax: `\u009b`.
pub fn escape_json(text: &mut String, character: char) {
    character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
        let _ = write!(text, "\\u{unit:04x}");
    });
}

/// Untrusted text in HTML, as text or in a quoted attribute. Escapes what could move a cursor as in
/// JSON: records have it so already, other texts may not.
#[derive(Clone, Copy, Debug)]
pub struct Html<'a>(pub &'a str);

impl Display for Html<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        shown(self.0, escape_json).chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            _ => f.write_char(character),
        })
    }
}

/// How templates escape what they show: as [`Html`].
#[derive(Clone, Copy, Debug)]
pub struct EscapeHtml;

impl askama::filters::Escaper for EscapeHtml {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, string: &str) -> fmt::Result {
        write!(dest, "{}", Html(string))
    }
}

/// Truncates at the bound, and appends the length and SHA-256 of the bytes as received.
fn bounded(mut text: String, bytes: &[u8], bytes_max: usize) -> String {
    if bytes.len() <= bytes_max && text.len() <= bytes_max {
        return text;
    }
    text.truncate(text.floor_char_boundary(bytes_max));
    let _ = write!(text, "…[{} octets, sha256 {}]", bytes.len(), sha256_hex(bytes));
    text
}

/// The SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Two lower-case hexadecimal digits per byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(bytes.len() * 2);
    bytes.iter().for_each(|byte| push_lower_hex(&mut hex, *byte));
    hex
}

/// Parses a digest of 32 bytes in lower-case hexadecimal. Each record has several, so digits are
/// looked up in a table, and checked together at the end.
pub fn digest(hex: &str) -> Option<[u8; 32]> {
    from_hex(hex)
}

/// Parses so many bytes in lower-case hexadecimal.
pub fn from_hex<const BYTES: usize>(hex: &str) -> Option<[u8; BYTES]> {
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let mut bytes = [0; BYTES];
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    let mut seen = 0;
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let (high, low) = (DIGITS[usize::from(*high)], DIGITS[usize::from(*low)]);
        seen |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    (seen < 0x10).then_some(bytes)
}

/// The value of each byte as a lower-case hexadecimal digit; 0x10 if it is none.
const DIGITS: [u8; 256] = {
    let mut digits = [0x10; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u8;
        value += 1;
    }
    digits
};

fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_hex(text: &mut String, mark: &str, byte: u8) {
    let _ = write!(text, "{mark}{byte:02X}");
}

fn push_lower_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.push(DIGITS[usize::from(byte >> 4)].into());
    text.push(DIGITS[usize::from(byte & 15)].into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_strangers_wrote_reaches_a_reader_of_html_as_it_is() {
        let hostile = "<b title='\"'>&\u{1b}[2J\u{202e}\n";
        assert_eq!(
            Html(hostile).to_string(),
            "&lt;b title=&#39;&quot;&#39;&gt;&amp;\\u001b[2J\\u202e\\u000a"
        );
    }
}
