//! How a refusal looks to a client that reads little of it: the status line, and what speaks no
//! HTTP.

use courtesy::config::{HttpsMode, MixedHosts};
use http::StatusCode;

use crate::testkit::parties::{Origin, Proxy};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

#[track_caller]
fn assert_line(head: &str, line: &str) {
    assert_eq!(head.lines().next(), Some(line));
}

#[test]
fn the_reason_phrase_says_what_refused_the_request() {
    let origin = Origin::with_robots(RULES);
    let secure = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin, &secure], |_| {});
    let disallowed = "HTTP/1.1 403 Disallowed by robots.txt";
    for accept in ["*/*", "text/html", "text/plain"] {
        let denied =
            proxy.exchange("GET", &origin.url("/private/"), &format!("Accept: {accept}\r\n"));
        assert_line(&denied.head.0, disallowed);
    }
    assert_line(&proxy.exchange("HEAD", &origin.url("/private/"), "").head.0, disallowed);
    assert_line(&proxy.https(&secure.authority()).get("/private/").head.0, disallowed);
    // The second of one state, and what is no denial.
    assert_line(&proxy.get(&origin.url("/private/")).head.0, disallowed);
    assert_line(&proxy.get("ftp://a.example/").head.0, "HTTP/1.1 501 Not supported");
    assert_line(&proxy.get("/").head.0, "HTTP/1.1 400 Not a valid request");
    let mut client = proxy.client();
    assert_line(
        &client.send("G@T / HTTP/1.1\r\n\r\n").read().head.0,
        "HTTP/1.1 400 Not a valid request",
    );
    // An origin's answer has its own.
    assert!(proxy.get(&origin.url("/open")).head.0.starts_with("HTTP/1.1 200 "));

    proxy.change(|settings| settings.deny.status = StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS);
    assert_line(
        &proxy.get(&origin.url("/private/")).head.0,
        "HTTP/1.1 451 Disallowed by robots.txt",
    );
}

#[test]
fn a_refused_connect_has_its_reason_phrase() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.https.mode = HttpsMode::Classify;
        settings.https.mixed = MixedHosts::Refuse;
    });
    let connect = |authority: &str| {
        let mut client = proxy.client();
        client
            .send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"))
            .read()
            .head
            .0
    };
    assert_line(&connect(&origin.authority()), "HTTP/1.1 403 Path not visible");
    assert_line(&connect("127.0.0.1:25"), "HTTP/1.1 403 Port not allowed");
}
