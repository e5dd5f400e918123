//! A value of the shared engine, whatever is in its place, is read within its bound or refused, never
//! a panic; what is read is written again as it was meant.

use courtesy::engine::format::{decode_file, decode_known, encode_file, encode_known};
use courtesy::engine::{LeaseToken, SealKey};
use courtesy::store::PublishedEntry;

const KEY: &[u8] = b"courtesy:1:{https://example.com}:known";
/// The most bytes of a text, here.
const TEXT_MAX: usize = 1 << 16;

/// A value, or the text of one.
pub fn holds(bytes: &[u8]) {
    for seal in [None, Some(SealKey::new(&[1; 32]))] {
        if let Some((token, Ok(text))) = decode_known(KEY, bytes, seal.as_ref(), TEXT_MAX) {
            check_known(token, &text, seal.as_ref());
        }
    }
    if let Ok(content) = decode_file(bytes, TEXT_MAX) {
        assert!(content.len() <= TEXT_MAX);
        let again = encode_file(&content).expect("it is compressed");
        assert_eq!(decode_file(&again, TEXT_MAX), Ok(content));
    }
    if bytes.len() <= TEXT_MAX {
        check_known(LeaseToken(7), bytes, None);
    }
}

fn check_known(token: LeaseToken, text: &[u8], seal: Option<&SealKey>) {
    assert!(text.len() <= TEXT_MAX);
    let value = encode_known(KEY, token, text, seal).expect("it is compressed");
    let again = decode_known(KEY, &value, seal, TEXT_MAX);
    assert_eq!(again, Some((token, Ok(text.to_vec()))));
    let changed = decode_known(b"another key", &value, seal, TEXT_MAX);
    assert!(seal.is_none() || changed.is_some_and(|(_, text)| text.is_err()), "it has a seal");
    if let Some(entry) = PublishedEntry::read(text) {
        assert_eq!(PublishedEntry::read(&entry.write()), Some(entry));
    }
}
