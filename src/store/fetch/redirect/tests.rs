use super::*;

fn chain(url: &str) -> Chain {
    Chain::new(&split_url(url.as_bytes()).expect("a URL").0, 5)
}

fn follow(chain: &mut Chain, location: &str) -> Result<String, &'static str> {
    let mut headers = HeaderMap::new();
    headers.insert(LOCATION, HeaderValue::from_bytes(location.as_bytes()).expect("a field value"));
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
        follow(&mut chain, &format!("/{hop}")).expect("it is within the limit");
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
