use proptest::prelude::*;

use super::*;

fn compared(path: &[u8]) -> Vec<u8> {
    Path::new(path, &Dialect::RFC9309).bytes().to_vec()
}

#[test]
fn an_ordinary_path_is_borrowed() {
    for path in ["/", "/a/b.html?c=d/e&f=..", "/.well-known/x", "/*$", "/ünencoded \""] {
        let path = Path::new(path.as_bytes(), &Dialect::RFC9309);
        assert!(matches!(path.normal, Cow::Borrowed(_)), "{path:?}");
    }
}

#[test]
fn dot_segments_of_the_path_are_removed_encoded_or_not() {
    for (given, expected) in [
        ("/a/../b", "/b"),
        ("/a/./b/.", "/a/b/"),
        ("/a/%2E%2e", "/"),
        ("/../../a//..", "/a/"),
        ("/...a/..b", "/...a/..b"),
        ("/a?b/../c", "/a?b/../c"),
    ] {
        assert_eq!(compared(given.as_bytes()), expected.as_bytes(), "{given}");
    }
}

#[test]
fn slash_and_question_mark_are_their_encodings_in_the_query_only() {
    let expected = [b'/', b'a', ENCODED_SLASH, ENCODED_QUESTION, b'?', b'/', b'?'];
    assert_eq!(compared(b"/%61%2f%3f?%2F%3F"), expected);
}

#[test]
fn what_is_no_path_is_read_as_one() {
    assert_eq!(compared(b""), b"/");
    assert_eq!(compared(b"*"), b"/*");
    assert_eq!(compared(b"?a"), b"/?a");
}

#[test]
fn only_robots_txt_itself_is_robots_txt() {
    let is_robots_txt = |path: &str| Path::new(path.as_bytes(), &Dialect::RFC9309).is_robots_txt();
    assert!(is_robots_txt("/robots.txt"));
    for other in
        ["/robots.txt?", "/robots.txt/", "/Robots.txt", "/robots%2Etxt", "/a/../robots.txt"]
    {
        assert!(!is_robots_txt(other), "{other}");
    }
}

#[test]
fn the_path_of_a_url_begins_where_its_authority_ends() {
    for (url, path) in [
        ("https://www.example.com", "/"),
        ("https://www.example.com/a?b#c", "/a?b"),
        ("https://www.example.com?a", "/?a"),
        ("https://www.example.com;a", "/;a"),
        ("https://www.example.com#/a", "/"),
        ("//www.example.com/a", "/a"),
        ("www.example.com/a?u=http://b", "/a?u=http://b"),
        ("/a?u=http://b", "/a?u=http://b"),
        ("", "/"),
    ] {
        assert_eq!(path_of_url(url.as_bytes()), path.as_bytes(), "{url}");
    }
}

/// Spells a normal form in the plainest equivalent way: nearly everything encoded.
fn spell(normal: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = normal.iter();
    while let Some(&byte) = bytes.next() {
        let value = match byte {
            b'/' | b'?' => {
                out.push(byte);
                continue;
            }
            0x03 => {
                out.push(b'%');
                continue;
            }
            ENCODED_SLASH => b'/',
            ENCODED_QUESTION => b'?',
            0x08..=0x0F => (byte & 7) << 4 | bytes.next().expect("a pair") & 0x0F,
            other => other,
        };
        out.extend(format!("%{value:02x}").bytes());
    }
    out
}

proptest! {
    #[test]
    fn normalising_twice_is_normalising_once(
        path in "/([a%/?.]|%2[0-9Ff]|%3[Ff]|%7[Ff]|%0a|[ -~]){0,20}",
    ) {
        let once = compared(path.as_bytes());
        prop_assert_eq!(compared(&spell(&once)), once);
    }
}
