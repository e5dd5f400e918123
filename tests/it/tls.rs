//! Origins over TLS: verified without exception, and an origin of their own beside the plain one.

use std::path::PathBuf;

use courtesy::config::Mode;

use crate::testkit::parties::{End, Origin, Proxy, Script, TlsFront, ok_with, params};

const RULES: &str = "User-agent: *\nDisallow: /no\n";

fn trusting(root: PathBuf) -> Proxy {
    Proxy::with(|settings| settings.tls.extra_roots = vec![root])
}

#[test]
fn an_https_target_is_fetched_and_judged_over_tls() {
    let origin = Origin::with_robots(RULES);
    let front = TlsFront::before(&origin);
    let proxy = trusting(front.root());
    let mut client = proxy.client();
    assert_eq!(client.get(&front.url("/page")).text(), "this is /page\n");
    assert_eq!(client.get(&front.url("/no")).reason(), "disallow_rule");
    assert_eq!(client.get(&front.url("/robots.txt")).text(), RULES);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page"]);
    assert_eq!(origin.received("/page").field("host"), Some(front.authority().as_str()));
    assert_eq!(proxy.record()["url"], front.url("/no"));
}

#[test]
fn connections_over_tls_are_kept_too() {
    let origin = Origin::with_robots(RULES);
    let front = TlsFront::before(&origin);
    let proxy = trusting(front.root());
    let mut client = proxy.client();
    for _ in 0..5 {
        assert_eq!(client.get(&front.url("/page")).status(), 200);
    }
    assert_eq!(origin.log().connections, 1, "the robots.txt came over it, too");
}

#[test]
fn a11_a_certificate_that_does_not_hold_lets_nothing_through() {
    let origin = Origin::with_robots(RULES);
    let mut stranger = params("localhost");
    stranger.distinguished_name.push(rcgen::DnType::CommonName, "a stranger");
    let unknown = TlsFront::with(&origin, &stranger, End::Told);
    let other_name = TlsFront::with(&origin, &params("other.example"), End::Told);
    let mut expired = params("localhost");
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let expired = TlsFront::with(&origin, &expired, End::Told);
    let mut early = params("localhost");
    early.not_before = rcgen::date_time_ymd(2999, 1, 1);
    let early = TlsFront::with(&origin, &early, End::Told);
    let known = TlsFront::before(&origin);
    for (front, root, told) in [
        (&unknown, known.root(), "issuer"),
        (&other_name, other_name.root(), "name"),
        (&expired, expired.root(), "expired"),
        (&early, early.root(), "valid"),
    ] {
        let denied = trusting(root.clone()).get(&front.url("/page"));
        assert_eq!(
            (denied.status(), denied.reason().as_str()),
            (403, "robots_unreachable"),
            "{told}"
        );
        // Nor does observing let anything pass that is not the origin's.
        let observing = Proxy::with(|settings| {
            settings.tls.extra_roots = vec![root];
            settings.robots.mode = Mode::Observe;
        });
        let failed = observing.get(&front.url("/page"));
        failed.assert_error(502, "tls_certificate_error");
        assert!(
            failed.json()["detail"].as_str().is_some_and(|it| it.contains(told)),
            "{}",
            failed.text()
        );
    }
    assert_eq!(origin.log().connections, 0);
}

/// RFC 9309 §2.3: the scheme is part of whom a robots.txt speaks for.
#[test]
fn the_rules_of_http_are_not_those_of_https() {
    let plain = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let secret = Origin::with_robots(RULES);
    let front = TlsFront::before(&secret);
    let proxy = trusting(front.root());
    let mut client = proxy.client();
    assert_eq!(client.get(&front.url("/page")).status(), 200);
    assert_eq!(client.get(&plain.url("/page")).status(), 403);
    // Plain HTTP on the port of TLS is another origin, and one that cannot be understood.
    let spoken_plainly = front.url("/page").replace("https", "http");
    assert_eq!(client.get(&spoken_plainly).reason(), "robots_unreachable");
}

/// RFC 9112 §9.8: a body that ends with the connection is whole only when TLS says so.
#[test]
fn d12_what_ends_without_close_notify_is_incomplete() {
    let until_the_end =
        |body: &str| Script::default().send(format!("HTTP/1.1 200 OK\r\n\r\n{body}")).close();
    let origin = Origin::with_robots(RULES).on("/page", until_the_end("page"));
    let cut = TlsFront::with(&origin, &params("localhost"), End::Cut);
    let told = TlsFront::before(&origin);
    let page = |front: &TlsFront| {
        let proxy = trusting(front.root());
        proxy.client().ask("GET", &front.url("/page"), "").try_read("GET").map(|page| page.text())
    };
    assert_eq!(page(&told).expect("the whole page"), "page");
    assert!(page(&cut).is_err());

    let origin = Origin::start().on("/robots.txt", until_the_end(RULES));
    let cut = TlsFront::with(&origin, &params("localhost"), End::Cut);
    assert_eq!(trusting(cut.root()).get(&cut.url("/page")).reason(), "robots_unreachable");
    let told = TlsFront::before(&origin);
    assert_eq!(trusting(told.root()).get(&told.url("/page")).status(), 200);
}

#[test]
fn a_robots_txt_redirected_to_https_must_be_verified() {
    let secure = Origin::start().on("/rules.txt", ok_with("", RULES));
    let front = TlsFront::before(&secure);
    let to = |url: &str| {
        Script::default()
            .send(format!("HTTP/1.1 301 Moved\r\nLocation: {url}\r\nContent-Length: 0\r\n\r\n"))
    };
    let plain = Origin::start().on("/robots.txt", to(&front.url("/rules.txt")));
    let proxy = trusting(front.root());
    assert_eq!(proxy.get(&plain.url("/no")).reason(), "disallow_rule");
    assert_eq!(Proxy::start().get(&plain.url("/page")).reason(), "robots_unreachable");
    assert_eq!(secure.request_lines(), ["GET /rules.txt"]);
}
