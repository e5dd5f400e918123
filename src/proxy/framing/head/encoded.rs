//! Targets with bytes that a URL may only have percent-encoded. Some clients send them as typed,
//! and servers accept that. They are encoded here once, before hyper, the decision and the
//! origin see the target: what is decided on is what is sent, and it is ASCII.

use std::borrow::Cow;

use crate::audit::Record;
use crate::types::origin::percent_encoded;

/// A head whose target had to be percent-encoded.
#[derive(Debug)]
pub struct Encoded {
    /// The whole head, with the encoded target.
    pub head: Vec<u8>,
    /// Path and query as they came, as a record shows them.
    pub path_as_received: Box<str>,
}

/// `target` with its path and query percent-encoded; never what is before them (RFC 3986 §3.2.2).
pub fn target(target: &[u8]) -> Cow<'_, [u8]> {
    let (before, path) = target.split_at(path_at(target));
    match percent_encoded(path) {
        Cow::Borrowed(_) => Cow::Borrowed(target),
        Cow::Owned(path) => Cow::Owned([before, &path].concat()),
    }
}

/// `head` with the target of its request line encoded.
pub fn encoded_head(head: &[u8]) -> Encoded {
    let after_blank =
        |from: usize| memchr::memchr(b' ', &head[from..]).map_or(head.len(), |at| from + at + 1);
    let begin = after_blank(0);
    let end = after_blank(begin).saturating_sub(1).max(begin);
    let begin = begin + path_at(&head[begin..end]);
    let path = &head[begin..end];
    Encoded {
        head: [&head[..begin], &percent_encoded(path), &head[end..]].concat(),
        path_as_received: path_as_received(path),
    }
}

/// `path_and_query` as a record shows it.
pub fn path_as_received(path_and_query: &[u8]) -> Box<str> {
    Record::text(path_and_query).into()
}

/// Where path and query begin: after the authority, if there is one. The end, if there is neither.
fn path_at(target: &[u8]) -> usize {
    let from = match memchr::memmem::find(target, b"://") {
        // A path or a query may contain "://", too.
        Some(colon) if !target[..colon].iter().any(|byte| b"/?".contains(byte)) => colon + 3,
        _ => 0,
    };
    memchr::memchr2(b'/', b'?', &target[from..]).map_or(target.len(), |at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_path_and_query_are_encoded() {
        for (given, expected) in [
            (&b"http://a/\xe9"[..], &b"http://a/%E9"[..]),
            (b"http://a?\xe9://\xe9", b"http://a?%E9://%E9"),
            (b"/\xe9://b/\xe9", b"/%E9://b/%E9"),
            (b"?http://\"", b"?http://%22"),
            (b"http://\xe9/a", b"http://\xe9/a"),
            (b"http://\xe9/\xe9", b"http://\xe9/%E9"),
            (b"h\xe9://a/", b"h\xe9://a/"),
            (b"http:\xe9//a/<", b"http:\xe9//a/%3C"),
            (b"a\xe9:443", b"a\xe9:443"),
            (b"http://a<b", b"http://a<b"),
            (b"*\xe9", b"*\xe9"),
            (b"", b""),
        ] {
            let is = target(given);
            assert_eq!(*is, *expected, "{}", given.escape_ascii());
        }
    }

    #[test]
    fn the_rest_of_a_head_stays_as_it_is() {
        let given = b"GET http://a/\xc3\xa9?<x> HTTP/1.1\r\nHost: a\r\nX: \xe9 <\r\n\r\n";
        let Encoded { head, path_as_received } = encoded_head(given);
        assert_eq!(
            head,
            b"GET http://a/%C3%A9?%3Cx%3E HTTP/1.1\r\nHost: a\r\nX: \xe9 <\r\n\r\n",
            "{}",
            head.escape_ascii()
        );
        assert_eq!(&*path_as_received, "/\u{e9}?<x>");
    }
}
