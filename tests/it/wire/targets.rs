//! RFC 9112 §3: what a request line may name, and what becomes of it.

use super::case::Expect::{Forwarded, Inside, Own, Refused, Then, Tunnel};
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
        (
            "GET http://{o}/?u=http://b.example/x?y HTTP/1.1",
            Forwarded(&["GET /?u=http://b.example/x?y"]),
        ),
        ("HEAD http://{o}/page HTTP/1.1", Forwarded(&["HEAD /page"])),
        ("BREW http://{o}/page HTTP/1.1", Forwarded(&["BREW /page"])),
        ("M-SEARCH http://{o}/page HTTP/1.1", Forwarded(&["M-SEARCH /page"])),
        ("get http://{o}/page HTTP/1.1", Forwarded(&["get /page"])),
    ];
    let sent = passed.map(|(it, expect)| (line(it), expect));
    check(&sent.iter().map(|(sent, expect)| ("A4", sent.as_str(), *expect)).collect::<Vec<_>>());
}

/// In path and query, and once; what is no byte of this kind goes on as it was written.
const RAW: [(&str, &[&str]); 20] = [
    ("GET http://{o}/a\u{e9} HTTP/1.1", &["GET /a%E9"]),
    ("GET http://{o}/caf\u{c3}\u{a9} HTTP/1.1", &["GET /caf%C3%A9"]),
    ("GET http://{o}/\u{80}\u{ff} HTTP/1.1", &["GET /%80%FF"]),
    ("GET http://{o}?\u{e9} HTTP/1.1", &["GET /?%E9"]),
    ("GET http://{o}/?q=\u{e9}&r=\u{fc} HTTP/1.1", &["GET /?q=%E9&r=%FC"]),
    ("GET http://{o}/<a>?<b> HTTP/1.1", &["GET /%3Ca%3E?%3Cb%3E"]),
    ("GET http://{o}/\"a\"?\"b\" HTTP/1.1", &["GET /%22a%22?%22b%22"]),
    ("GET http://{o}/`? HTTP/1.1", &["GET /%60?"]),
    ("GET http://{o}/%C3%A9\u{c3}\u{a9} HTTP/1.1", &["GET /%C3%A9%C3%A9"]),
    ("GET http://{o}/%c3\u{e9}%zz% HTTP/1.1", &["GET /%c3%E9%zz%"]),
    ("GET http://{o}/%\u{e9}41 HTTP/1.1", &["GET /%%E941"]),
    ("HEAD http://{o}/\u{e9} HTTP/1.1", &["HEAD /%E9"]),
    ("OPTIONS http://{o}/\u{e9} HTTP/1.1", &["OPTIONS /%E9"]),
    ("GET http://{o}/\u{e9} HTTP/1.0", &["GET /%E9"]),
    ("GET http://{o}/?u=http://\u{e9}/ HTTP/1.1", &["GET /?u=http://%E9/"]),
    // Bytes that end a line, a path or a request for a careless reader: C1 controls, and the halves of longer
    // forms of CR, LF, blank and slash.
    ("GET http://{o}/a\u{85}b\u{a0}c HTTP/1.1", &["GET /a%85b%A0c"]),
    ("GET http://{o}/a\u{c0}\u{8d}\u{c0}\u{8a}b HTTP/1.1", &["GET /a%C0%8D%C0%8Ab"]),
    (
        "GET http://{o}/a\u{e5}\u{98}\u{8a}\u{e5}\u{98}\u{8d}b HTTP/1.1",
        &["GET /a%E5%98%8A%E5%98%8Db"],
    ),
    ("GET http://{o}/\u{c0}\u{af}..\u{c0}\u{af}page HTTP/1.1", &["GET /%C0%AF..%C0%AFpage"]),
    ("GET http://{o}/a{b}|\\^[c]~'?`{d} HTTP/1.1", &["GET /a{b}|\\^[c]~'?`{d}"]),
];

#[test]
fn a4_bytes_that_no_url_has_are_encoded_once() {
    let sent = RAW.map(|(it, expect)| (line(it), Forwarded(expect)));
    check(&sent.iter().map(|(sent, expect)| ("A4", sent.as_str(), *expect)).collect::<Vec<_>>());
}

#[test]
fn a4_bytes_inside_a_connect_are_encoded_too() {
    let connect = |path: &str| {
        format!(
            "CONNECT {{o}} HTTP/1.1\r\nHost: {{o}}\r\n\r\nGET {path} HTTP/1.1\r\nHost: {{o}}\r\n\r\n\
             GET /page HTTP/1.1\r\nHost: {{o}}\r\n\r\n"
        )
    };
    let cases = [
        (connect("/caf\u{c3}\u{a9}?<x>"), Tunnel(&["GET /caf%C3%A9?%3Cx%3E", "GET /page"])),
        (connect("http://{o}/\u{e9}"), Tunnel(&["GET /%E9", "GET /page"])),
        (connect("http://{o}\u{e9}/"), Inside(400)),
        (connect("/\u{e9}\0"), Inside(400)),
    ];
    check(&cases.iter().map(|(sent, expect)| ("A4", sent.as_str(), *expect)).collect::<Vec<_>>());
}

/// The next request begins where the client began it, however many bytes more its target has got.
#[test]
fn a4_b14_what_is_encoded_moves_no_request() {
    let raw = line("GET http://{o}/\u{e9}?<x> HTTP/1.1");
    let post = "POST http://{o}/\u{fc} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n\u{e9}<>\"`";
    let chunked = "POST http://{o}/\u{fc} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   3\r\n\u{e9}<>\r\n0\r\n\r\n";
    let page = line("GET http://{o}/page HTTP/1.1");
    let cases = [
        (raw.repeat(2) + &page, Forwarded(&["GET /%E9?%3Cx%3E", "GET /%E9?%3Cx%3E", "GET /page"])),
        ([post, &page].concat(), Forwarded(&["POST /%FC", "GET /page"])),
        (
            [chunked, &page, &raw].concat(),
            Forwarded(&["POST /%FC", "GET /page", "GET /%E9?%3Cx%3E"]),
        ),
        (
            raw + "GET http://{o}\u{e9}/ HTTP/1.1\r\nHost: x\r\n\r\n",
            Then(&["GET /%E9?%3Cx%3E"], 400),
        ),
    ];
    check(&cases.iter().map(|(sent, expect)| ("A4", sent.as_str(), *expect)).collect::<Vec<_>>());
}

/// Three bytes for each: neither a target nor a head becomes longer than one may be.
#[test]
fn a8_an_encoded_target_may_be_as_long_as_any_other() {
    let long = |path: &str, count: usize| {
        line(&format!("GET http://{{o}}/{} HTTP/1.1", path.repeat(count)))
    };
    let cases =
        [(long("\u{e9}", 21_835), 431), (long("<", 30_000), 414), (long("\u{ff}", 65_000), 414)];
    check(
        &cases
            .iter()
            .map(|(sent, status)| ("A8", sent.as_str(), Refused(*status)))
            .collect::<Vec<_>>(),
    );
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
        "/private/\u{e9}",
        "/private<\"`>",
        "/private?\u{ff}",
        "/priv%61te\u{c0}\u{af}x",
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
        "http://\u{ff}{o}/\u{ff}",
        "http://{o}\u{e9}/page",
        "http://{o}<b>/page",
        "http://a\"b:{p}/page",
        "http://a`b:{p}/page",
        "h\u{e9}tp://{o}/page",
        "\u{e9}://{o}/page",
        "\u{e9}",
        "/\u{e9}",
        "/\u{e9}://{o}/page",
        "?\u{e9}://{o}/page",
        "//{o}/\u{e9}",
        "http:/{o}/\u{e9}",
        "*\u{e9}",
        "http://user\u{e9}@{o}/",
        "http://{o}/\u{e9}#fragment",
        "http://{o}/\u{e9}\t",
        "http://{o}/\u{e9}\0",
        "http://{o}/<\u{7f}>",
        "http://{o}/\u{e9} b",
        "http://{o}/\u{e9}\rb",
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
            super::case::send(proxy.address(), &super::case::bytes(sent, origin.address()), false)
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
