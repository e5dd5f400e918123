//! Percent-encodes bytes that clients send raw in a path or a query, although no URL may contain
//! them.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, percent_encode};

/// The ASCII characters to encode in a query.
const QUERY: &AsciiSet = &AsciiSet::EMPTY.add(b'"').add(b'<').add(b'>');

/// The same for a path. A backtick in a query is left as it is.
const PATH: &AsciiSet = &QUERY.add(b'`');

/// `path_and_query` with bytes from 0x80, `"`, `<` and `>`, and in the path `` ` ``,
/// percent-encoded (RFC 3986 §2.1): by RFC 9309 §2.2.2 it is the same path. Everything else stays:
/// existing triplets, `%` without two digits, and blanks and controls, which no request can
/// contain.
pub fn percent_encoded(path_and_query: &[u8]) -> Cow<'_, [u8]> {
    let mark = memchr::memchr(b'?', path_and_query).unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(mark);
    let path: Cow<'_, str> = percent_encode(path, PATH).into();
    let query: Cow<'_, str> = percent_encode(query, QUERY).into();
    // Encoding always lengthens.
    if path.len() + query.len() == path_and_query.len() {
        Cow::Borrowed(path_and_query)
    } else {
        Cow::Owned([path, query].concat().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_no_url_has_as_itself_is_encoded_once() {
        for (given, expected) in [
            (&b"/a?b=c"[..], &b"/a?b=c"[..]),
            (b"/caf\xc3\xa9", b"/caf%C3%A9"),
            (b"/\xff\x80?\xfe", b"/%FF%80?%FE"),
            (b"/\"<>`?\"<>`?", b"/%22%3C%3E%60?%22%3C%3E`?"),
            (b"/%C3%A9\xc3\xa9%zz%", b"/%C3%A9%C3%A9%zz%"),
            (b"/%\"41", b"/%%2241"),
            (b"/{}|\\^[]~'", b"/{}|\\^[]~'"),
            (b"/a b\t\x7f\0#", b"/a b\t\x7f\0#"),
            (b"\x80", b"%80"),
            (b"", b""),
        ] {
            assert_eq!(percent_encoded(given), expected, "{}", given.escape_ascii());
        }
    }

    proptest! {
        /// A server that decodes the result has exactly the given bytes.
        #[test]
        fn encoding_is_undone_by_decoding_and_done_once(given in prop::collection::vec(any::<u8>(), 0..40)) {
            let given: Vec<u8> = given.into_iter().filter(|byte| *byte != b'%').collect();
            let encoded = percent_encoded(&given);
            prop_assert!(encoded.is_ascii());
            prop_assert_eq!(percent_decode(&encoded).collect::<Vec<u8>>(), given.clone());
            prop_assert_eq!(percent_encoded(&encoded), encoded.clone());
            for sign in b"/?#&=: \r\n" {
                let count = |bytes: &[u8]| bytes.iter().filter(|byte| *byte == sign).count();
                prop_assert_eq!(count(&encoded), count(&given));
            }
        }
    }
}
