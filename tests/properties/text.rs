//! What strangers wrote is shown in one bounded line without anything that moves a cursor or turns the
//! writing, and the octets can be told from it again.

use courtesy::audit::Record;
use courtesy::limits::{RECORD_PATTERN_OCTETS_MAX, RECORD_TEXT_OCTETS_MAX, RECORD_URL_OCTETS_MAX};
use courtesy::types::sanitize::{Html, escape_json, shown};

/// `…[18446744073709551615 octets, sha256 …]`.
const MARK_OCTETS_MAX: usize = 128;

/// Any octets.
pub fn holds(octets: &[u8]) {
    let url = Record::url(octets);
    assert!(url.len() <= RECORD_URL_OCTETS_MAX + MARK_OCTETS_MAX);
    assert!(url.chars().all(|character| character.is_ascii_graphic() || "… ".contains(character)));
    for (text, octets_max) in [
        (Record::text(octets), RECORD_TEXT_OCTETS_MAX),
        (Record::pattern(octets), RECORD_PATTERN_OCTETS_MAX),
    ] {
        assert!(text.len() <= octets_max + MARK_OCTETS_MAX && is_quiet(&text), "{text:?}");
        if octets.len() <= octets_max && !text.contains('…') {
            assert_eq!(unescaped(&text), octets);
        }
    }
    let text = String::from_utf8_lossy(octets);
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

/// `\\` is a backslash and `\xHH` the octet.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut octets, mut rest) = (Vec::new(), text.as_bytes());
    while let [octet, after @ ..] = rest {
        let (octet, after) = match (octet, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [b'x', high, low, after @ ..]) => (digit(*high) << 4 | digit(*low), after),
            (b'\\', _) => panic!("a backslash of nobody's in {text:?}"),
            (octet, after) => (*octet, after),
        };
        octets.push(octet);
        rest = after;
    }
    octets
}

fn digit(octet: u8) -> u8 {
    char::from(octet).to_digit(16).expect("a hexadecimal digit") as u8
}
