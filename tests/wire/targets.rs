//! RFC 9112 §3: what a request line may name, and what becomes of it.

use super::case::Expect::{Forwarded, Own, Refused};
use super::case::{check, line};

#[test]
fn a1_a4_a_target_goes_on_as_it_was_written() {
    let passed = [
        ("GET http://{o}/page HTTP/1.1", Forwarded(&["GET /page"])),
        ("GET http://{o} HTTP/1.1", Forwarded(&["GET /"])),
        ("GET http://{o}?q=1 HTTP/1.1", Forwarded(&["GET /?q=1"])),
        ("GET http://{o}/? HTTP/1.1", Forwarded(&["GET /?"])),
        ("GET HTTP://{o}/page HTTP/1.1", Forwarded(&["GET /page"])),
        ("GET http://{o}/a/../b/./c HTTP/1.1", Forwarded(&["GET /a/../b/./c"])),
        ("GET http://{o}//double///slash/ HTTP/1.1", Forwarded(&["GET //double///slash/"])),
        ("GET http://{o}/%7e%2f%00%0d%0a HTTP/1.1", Forwarded(&["GET /%7e%2f%00%0d%0a"])),
        ("GET http://{o}/%zz% HTTP/1.1", Forwarded(&["GET /%zz%"])),
        ("GET http://{o}/a;b,c@d:e!$&'()*+ HTTP/1.1", Forwarded(&["GET /a;b,c@d:e!$&'()*+"])),
        ("GET http://{o}/?u=http://b.example/x?y HTTP/1.1", Forwarded(&["GET /?u=http://b.example/x?y"])),
        ("HEAD http://{o}/page HTTP/1.1", Forwarded(&["HEAD /page"])),
        ("BREW http://{o}/page HTTP/1.1", Forwarded(&["BREW /page"])),
        ("M-SEARCH http://{o}/page HTTP/1.1", Forwarded(&["M-SEARCH /page"])),
        ("get http://{o}/page HTTP/1.1", Forwarded(&["get /page"])),
    ];
    let sent = passed.map(|(it, expect)| (line(it), expect));
    check(&sent.iter().map(|(sent, expect)| ("A4", sent.as_str(), *expect)).collect::<Vec<_>>());
}

#[test]
fn a9_options_of_a_whole_origin_is_one_of_its_star() {
    let asked = [
        ("OPTIONS http://{o} HTTP/1.1", Forwarded(&["OPTIONS *"])),
        ("OPTIONS http://{o}/ HTTP/1.1", Forwarded(&["OPTIONS /"])),
        ("OPTIONS http://{o}?q HTTP/1.1", Forwarded(&["OPTIONS /?q"])),
        ("OPTIONS * HTTP/1.1", Own(204)),
        ("GET * HTTP/1.1", Refused(400)),
        ("OPTIONS http://{o}* HTTP/1.1", Refused(400)),
    ];
    let sent = asked.map(|(it, expect)| (line(it), expect));
    check(&sent.iter().map(|(sent, expect)| ("A9", sent.as_str(), *expect)).collect::<Vec<_>>());
}

/// I1: by whatever spelling.
#[test]
fn a4_what_is_disallowed_is_so_in_every_spelling() {
    let denied: Vec<String> = [
        "/private",
        "/private/",
        "/private?x",
        "/private.html",
        "/%70rivate",
        "/%70%72%69%76%61%74%65/x",
        "/priv%61te",
        "/priv%61te?a=b",
    ]
    .iter()
    .flat_map(|path| ["GET", "POST", "HEAD", "OPTIONS", "BREW"].map(|method| (method, path)))
    .map(|(method, path)| line(&format!("{method} http://{{o}}{path} HTTP/1.1")))
    .collect();
    check(&denied.iter().map(|sent| ("A4", sent.as_str(), Own(403))).collect::<Vec<_>>());
}

#[test]
fn a5_a6_a7_what_is_no_target_is_refused() {
    let refused: Vec<String> = [
        "http:///page",
        "http://",
        "http://?x",
        "http://:80/",
        "http://@{o}/",
        "http://user@{o}/",
        "http://user:secret@{o}/page",
        "http://a@b@{o}/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:65616/",
        "http://127.0.0.1:4294967376/",
        "http://127.0.0.1:+{p}/",
        "http://127.0.0.1:-1/",
        "http://127.0.0.1:{p}a/",
        "http://127.0.0.1:0x50/",
        "http://127.0.0.1:{p}:{p}/",
        "http://[127.0.0.1]:{p}/",
        "http://[::1/",
        "http://::1]/",
        "http://[::1]x/",
        "http://[::1%25lo]:{p}/",
        "http://[]:{p}/",
        "http://127.0.0.1\\@b:{p}/",
        "http://127.0.0.1%00:{p}/",
        "http://127.0.0.1%2e:{p}/",
        "http://127.1:{p}/",
        "http://2130706433:{p}/",
        "http://0x7f.0.0.1:{p}/",
        "http://0177.0.0.1:{p}/",
        "http://a..b:{p}/",
        "http:/{o}/",
        "http:{o}/",
        "//{o}/page",
        "/page",
        "page",
        "{o}",
        "127.0.0.1",
        "http//{o}/",
        "http://{o}/page#fragment",
        "http://{o}#",
        "http://{o}/a\u{e9}",
        "http://{o}/\u{80}",
        "http://{o}/a\tb",
        "http://{o}/\0",
        "http://{o}/\u{7f}",
        "http://{o}/a\u{b}b",
        "http://{o}/a\rb",
        "",
        "http://{o}/a b",
        "http://{o}/ ",
        " http://{o}/",
        "http://\u{ff}{o}/",
    ]
    .iter()
    .map(|target| line(&format!("GET {target} HTTP/1.1")))
    .collect();
    let methods: Vec<String> =
        ["", " ", "G ET", "G@T", "GET:", "\"GET\"", "G\u{c9}T", "GET\t", "\0GET", "(GET)"]
            .iter()
            .map(|method| line(&format!("{method} http://{{o}}/page HTTP/1.1")))
            .collect();
    let cases = refused.iter().chain(&methods).map(|sent| ("A7", sent.as_str(), Refused(400)));
    check(&cases.collect::<Vec<_>>());
}

#[test]
fn a8_a_target_may_be_long_and_not_too_long() {
    let fair = line(&format!("HEAD http://{{o}}/?{} HTTP/1.1", "x".repeat(8000)));
    let long = line(&format!("GET http://{{o}}/?{} HTTP/1.1", "x".repeat(100_000)));
    let answers: Vec<Vec<u8>> = [fair, long]
        .iter()
        .map(|sent| {
            let origin = super::recorder::Recorder::start(super::recorder::Reply::Echo);
            let proxy = super::case::proxy();
            super::case::send(proxy.address(), &super::case::octets(sent, origin.address()), false)
        })
        .collect();
    assert!(answers[0].starts_with(b"HTTP/1.1 200 "), "{}", answers[0].escape_ascii());
    assert!(answers[1].starts_with(b"HTTP/1.1 414 "), "{}", answers[1].escape_ascii());
}

#[test]
fn a12_other_schemes_are_not_served() {
    let other: Vec<String> = ["ftp", "gopher", "ws", "wss", "file", "unix", "javascript", "httpx"]
        .iter()
        .map(|scheme| line(&format!("GET {scheme}://{{o}}/page HTTP/1.1")))
        .collect();
    check(&other.iter().map(|sent| ("A12", sent.as_str(), Own(501))).collect::<Vec<_>>());
}
