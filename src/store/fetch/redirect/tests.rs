use super::*;

fn chain(url: &str) -> Chain {
    Chain::new(&split_url(url.as_bytes()).expect("a URL").0, 5)
}

fn follow(chain: &mut Chain, location: impl AsRef<[u8]>) -> Result<String, &'static str> {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, HeaderValue::from_bytes(location.as_ref()).expect("a field value"));
    chain.follow(StatusCode::FOUND, &headers).map_err(|cause| cause.word())?;
    Ok(format!("{} {}", chain.here().origin, chain.here().target))
}

#[test]
fn a_location_is_a_reference_from_where_we_are() {
    for (location, expected) in [
        ("https://example.com/robots.txt", "https://example.com /robots.txt"),
        ("HTTP://Other.Example:8080", "http://other.example:8080 /"),
        ("//cdn.example/r.txt?v=1#top", "http://cdn.example /r.txt?v=1"),
        ("/a/../b.txt", "http://example.com /b.txt"),
        ("other.txt", "http://example.com /other.txt"),
        ("?v=2", "http://example.com /robots.txt?v=2"),
        ("/b\u{fc}cher.txt", "http://example.com /b%C3%BCcher.txt"),
        ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example /"),
    ] {
        assert_eq!(
            follow(&mut chain("http://example.com"), location).as_deref(),
            Ok(expected),
            "{location}"
        );
    }
}

/// What a browser makes of a `Location` in any character encoding: the site gets its bytes back.
#[test]
fn bytes_beyond_ascii_are_encoded_one_by_one() {
    for (name, location, expected) in [
        ("Latin-1", &b"/caf\xe9.txt"[..], "http://example.com /caf%E9.txt"),
        ("UTF-8", "/caf\u{e9}.txt".as_bytes(), "http://example.com /caf%C3%A9.txt"),
        ("Shift JIS", b"/\x83\x8d\x83{.txt", "http://example.com /%83%8D%83%7B.txt"),
        ("GBK", b"/\xd6\xd0/r.txt", "http://example.com /%D6%D0/r.txt"),
        ("in a query", b"/r.txt?q=\xfc&r", "http://example.com /r.txt?q=%FC&r"),
        ("relative", b"r\xe9.txt", "http://example.com /r%E9.txt"),
        ("a query alone", b"?\xe9", "http://example.com /robots.txt?%E9"),
        ("absolute", b"https://example.com/\xe9", "https://example.com /%E9"),
        ("without a scheme", b"//example.com/\xe9", "http://example.com /%E9"),
        ("a URL in a query", b"/r?u=http://\xe9/", "http://example.com /r?u=http://%E9/"),
        ("slashes in a path", b"/a//\xe9", "http://example.com /a//%E9"),
        (
            "a host of UTF-8",
            "https://b\u{fc}cher.example/\u{fc}".as_bytes(),
            "https://xn--bcher-kva.example /%C3%BC",
        ),
        ("encoded already", b"/%E9\xe9", "http://example.com /%E9%E9"),
        (
            "a host and no path",
            "//b\u{fc}cher.example".as_bytes(),
            "http://xn--bcher-kva.example /",
        ),
        ("behind #", b"/a#\xe9", "http://example.com /a"),
    ] {
        let followed = follow(&mut chain("http://example.com"), location);
        assert_eq!(followed.as_deref(), Ok(expected), "{name}");
    }
    for host in [&b"http://b\xfccher.example/"[..], b"//\xff/", b"http://a\xc3/"] {
        let followed = follow(&mut chain("http://example.com"), host);
        assert_eq!(followed, Err("redirect_refused"), "{}", host.escape_ascii());
    }
}

#[test]
fn a_target_that_is_no_plain_web_address_is_refused() {
    for location in [
        "ftp://example.com/robots.txt",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/plain,user-agent",
        "https:robots.txt",
        "http:/2130706433/",
        "http://0x7f.1/",
        "http://2130706433/",
        "//127.1/",
        "http://user:secret@example.org/",
        "/\\2130706433/",
        "\\\\evil.example/",
        "http://example.org\\@evil.example/",
        "http://exa mple.org/",
    ] {
        let mut chain = chain("http://example.com");
        assert_eq!(follow(&mut chain, location), Err("redirect_refused"), "{location}");
    }
}

#[test]
fn five_redirects_are_followed_and_no_more() {
    let mut chain = chain("http://example.com");
    for hop in 1..=5 {
        follow(&mut chain, format!("/{hop}")).expect("it is within the limit");
    }
    assert_eq!((chain.hops(), chain.url().as_str()), (5, "http://example.com/5"));
    assert_eq!(follow(&mut chain, "/6"), Err("too_many_redirects"));
}

#[test]
fn a_circle_is_seen_when_it_closes() {
    assert_eq!(follow(&mut chain("http://example.com"), "/robots.txt#again"), Err("redirect_loop"));
    let mut chain = chain("http://example.com");
    follow(&mut chain, "https://example.com/robots.txt").expect("another scheme is another URL");
    assert_eq!(follow(&mut chain, "http://EXAMPLE.com:80/robots.txt"), Err("redirect_loop"));
}

#[test]
fn a_redirect_to_nowhere_says_so() {
    let mut chain = chain("http://example.com");
    assert_eq!(follow(&mut chain, ""), Err("redirect_without_location"));
    let cause =
        chain.follow(StatusCode::SEE_OTHER, &HeaderMap::new()).expect_err("there is no Location");
    assert_eq!(cause, Cause::RedirectWithoutLocation { code: 303 });
}
