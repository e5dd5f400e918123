//! Which spellings are one origin, and which are none.

use super::*;

fn origin(url: &str) -> Result<String, UrlError> {
    split_url(url.as_bytes()).map(|(origin, _)| origin.to_string())
}

#[test]
fn a13_one_origin_has_one_spelling() {
    for (url, expected) in [
        ("http://example.com", "http://example.com"),
        ("HTTP://Example.COM.:80/x", "http://example.com"),
        ("https://example.com:443/", "https://example.com"),
        ("http://example.com:/", "http://example.com"),
        ("http://example.com:0080/", "http://example.com"),
        ("https://example.com:80/", "https://example.com:80"),
        ("http://127.0.0.1:8080/a?b", "http://127.0.0.1:8080"),
        ("http://[2001:DB8::0:1]/", "http://[2001:db8::1]"),
        ("http://www.m\u{fc}ller.eu/", "http://www.xn--mller-kva.eu"),
        ("http://www.XN--mller-kva.eu/", "http://www.xn--mller-kva.eu"),
        ("http://my_host.example?q", "http://my_host.example"),
    ] {
        assert_eq!(origin(url).as_deref(), Ok(expected), "{url}");
    }
}

#[test]
fn algorithm_1_an_address_in_an_odd_notation_is_refused_as_such() {
    for url in [
        "http://2130706433/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://1.2.3.4.5/",
        "http://256.0.0.1/",
        "http://127.0.0.1.0x/",
        "http://\u{ff11}27.0.0.1/",
        "http://127\u{3002}0\u{3002}0\u{3002}1/",
        "http://\u{2460}27.0.0.1/",
        "http://a.0x7f/",
    ] {
        assert!(matches!(origin(url), Err(UrlError::OddAddress(_))), "{url}: {:?}", origin(url));
    }
    for url in ["http://[::1%25eth0]/", "http://[fe80::1%eth0]/"] {
        assert!(matches!(origin(url), Err(UrlError::BadAddress(_))), "{url}: {:?}", origin(url));
    }
    for url in ["http://%31%32%37.0.0.1/", "http://exa%6dple.com/", "http://127.0.0.1%00.example/"]
    {
        assert!(matches!(origin(url), Err(UrlError::HostName(_))), "{url}: {:?}", origin(url));
    }
}

#[test]
fn a6_bad_ports_brackets_and_characters_are_refused() {
    for url in
        ["http://[::1/", "http://[::1]x/", "http://[1.2.3.4]/", "http://[]/", "http://[[::1]]/"]
    {
        assert!(matches!(origin(url), Err(UrlError::BadAddress(_))), "{url}: {:?}", origin(url));
    }
    for url in [
        "http://a:0/",
        "http://a:00/",
        "http://a:65536/",
        "http://a:65616/",
        "http://a:4294967376/",
        "http://a:18446744073709551696/",
        "http://a:+80/",
        "http://a:-80/",
        "http://a:8 0/",
        "http://a:80:80/",
        "http://a:0x50/",
    ] {
        assert!(matches!(origin(url), Err(UrlError::Port(_))), "{url}: {:?}", origin(url));
    }
    for url in [
        "http://a..b/",
        "http://a\\b/",
        "http://a%00/",
        "http://a\0b/",
        "http://a b/",
        "http://xn--/",
    ] {
        assert!(matches!(origin(url), Err(UrlError::HostName(_))), "{url}: {:?}", origin(url));
    }
}

#[test]
fn a5_an_empty_host_and_userinfo_are_refused() {
    for url in ["http:///x", "http://:80/", "http://./", "http://?x"] {
        assert_eq!(origin(url), Err(UrlError::EmptyHost), "{url}");
    }
    for url in [
        "http://user:secret@example.com/",
        "http://@example.com/",
        "http://a\\@b/",
        "http://a%40@b/",
    ] {
        assert_eq!(origin(url), Err(UrlError::Userinfo), "{url}");
    }
}

#[test]
fn a12_only_the_schemes_of_robots_txt_are_any() {
    for scheme in ["gopher", "file", "ws", "httpx", ""] {
        assert_eq!(
            origin(&format!("{scheme}://example.com/")),
            Err(UrlError::Scheme(scheme.into()))
        );
    }
    assert_eq!(origin("/x"), Err(UrlError::NotAbsolute));
}

#[test]
fn a_name_is_made_of_letters_digits_and_hyphens_in_any_alphabet() {
    // Punycode for "ü!": the URL parser accepts the sign.
    for url in ["http://xn--!-xka.example/", "http://ü!.example/", "http://ü$(x).example/"] {
        assert!(matches!(origin(url), Err(UrlError::HostName(_))), "{url}");
    }
}

#[test]
fn the_rest_of_a_url_is_left_as_written() {
    for (url, rest) in [
        ("http://a", "/"),
        ("http://a?q=1", "/?q=1"),
        ("http://a/../%7e/x?y#z", "/../%7e/x?y"),
        ("http://a#/b", "/"),
    ] {
        assert_eq!(&*split_url(url.as_bytes()).unwrap().1, rest.as_bytes(), "{url}");
    }
}

#[test]
fn a_host_field_that_says_the_same_is_known_without_making_one() {
    for (url, same, others) in [
        ("http://a.example/", "a.example", ["a.example:80", "A.example", "a.example."]),
        (
            "http://a.example:8080/",
            "a.example:8080",
            ["a.example", "a.example:08080", "a.example:8081"],
        ),
        ("http://a.example:1/", "a.example:1", ["a.example:", "a.example:+1", "a.example:65537"]),
        ("https://127.0.0.1/", "127.0.0.1", ["127.0.0.1:443", "127.0.0.01", "127.1"]),
        (
            "http://127.0.0.1:99/",
            "127.0.0.1:99",
            ["127.0.0.1:", "127.0.0.1:+99", "127.0.0.1:99:99"],
        ),
        (
            "http://[2001:db8::1]:8080/",
            "[2001:db8::1]:8080",
            ["2001:db8::1", "[2001:DB8::1]:8080", ""],
        ),
    ] {
        let (origin, _) = split_url(url.as_bytes()).unwrap();
        assert!(origin.has_authority(same.as_bytes()), "{url} {same}");
        assert_eq!(origin.authority(), same);
        for other in others {
            assert!(!origin.has_authority(other.as_bytes()), "{url} {other}");
        }
    }
}

#[test]
fn both_schemes_of_a_host_have_one_lane_on_their_default_ports() {
    for (url, lane) in [
        ("http://a.example/", "https://a.example"),
        ("http://a.example:80/", "https://a.example"),
        ("https://a.example/", "https://a.example"),
        ("http://a.example:443/", "http://a.example:443"),
        ("https://a.example:80/", "https://a.example:80"),
        ("http://a.example:8080/", "http://a.example:8080"),
        ("http://127.0.0.1/", "https://127.0.0.1"),
        ("http://[2001:db8::1]/", "https://[2001:db8::1]"),
        ("ftp://a.example/", "ftp://a.example"),
    ] {
        let (origin, _) = split_url(url.as_bytes()).unwrap();
        assert_eq!(origin.lane().to_string(), lane, "{url}");
        assert_eq!(*origin.lane().lane(), *origin.lane(), "{url}");
    }
}
