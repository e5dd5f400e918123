//! What strangers wrote is shown in one bounded line without anything that moves a cursor or turns the
//! writing, and the bytes can be told from it again.

use courtesy::audit::Record;
use courtesy::audit::{RECORD_PATTERN_BYTES_MAX, RECORD_TEXT_BYTES_MAX, RECORD_URL_BYTES_MAX};
use courtesy::types::sanitize::{Html, escape_json, shown};

/// `…[18446744073709551615 octets, sha256 …]`.
const MARK_BYTES_MAX: usize = 128;

/// Any bytes.
pub fn holds(bytes: &[u8]) {
    let url = Record::url(bytes);
    assert!(url.len() <= RECORD_URL_BYTES_MAX + MARK_BYTES_MAX);
    assert!(url.chars().all(|character| character.is_ascii_graphic() || "… ".contains(character)));
    for (text, bytes_max) in [
        (Record::text(bytes), RECORD_TEXT_BYTES_MAX),
        (Record::pattern(bytes), RECORD_PATTERN_BYTES_MAX),
    ] {
        assert!(text.len() <= bytes_max + MARK_BYTES_MAX && is_quiet(&text), "{text:?}");
        if bytes.len() <= bytes_max && !text.contains('…') {
            assert_eq!(unescaped(&text), bytes);
        }
    }
    let text = String::from_utf8_lossy(bytes);
    assert!(is_quiet(&shown(&text, escape_json)));
    let html = Html(&text).to_string();
    assert!(is_quiet(&html) && !html.contains(['<', '>', '"', '\'']));
}

/// No control characters and none that turn the direction of writing.
fn is_quiet(text: &str) -> bool {
    let loud = |character: char| {
        let number = u32::from(character);
        number < 0x20
            || (0x7f..=0x9f).contains(&number)
            || [0x200e, 0x200f].contains(&number)
            || (0x2028..=0x202e).contains(&number)
            || (0x2066..=0x2069).contains(&number)
    };
    !text.contains(loud)
}

/// `\\` is a backslash and `\xHH` the byte.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [byte, after @ ..] = rest {
        let (byte, after) = match (byte, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => (digit(*high) << 4 | digit(*low), after),
            (b'\\', _) => panic!("a backslash of nobody's in {text:?}"),
            (byte, after) => (*byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    bytes
}

fn digit(byte: u8) -> u8 {
    char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8
}
