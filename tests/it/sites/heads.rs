//! Heads as servers send them: for a robots.txt what is a header is read, because nothing else of it
//! is passed on; for a page what all readers take alike. What is refused is named.

use crate::testkit::parties::h2_origin::{END_STREAM, data, head_with, whole};
use crate::testkit::parties::{Client, H2Origin, Origin, Proxy, Script};

const RULES: &str = "User-agent: *\nDisallow: /page\n";

/// 200 with these header lines and a length, and `body`.
fn sized(lines: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Plain, and intercepted.
fn both(check: impl Fn(bool, Origin, &dyn Fn(&Proxy, &Origin) -> Client)) {
    check(false, Origin::start(), &|proxy, _| proxy.client());
    check(true, Origin::secure(), &|proxy, origin| proxy.https(&origin.authority()));
}

#[test]
fn a_robots_txt_is_read_below_any_head_that_a_browser_reads() {
    let chunks = format!("{:x}\r\n{RULES}\r\n0\r\n\r\n", RULES.len());
    let chunked = |lines: &str| {
        format!("HTTP/1.1 200 OK\r\n{lines}Transfer-Encoding: chunked\r\n\r\n{chunks}")
    };
    let cookies = "Set-Cookie: a=b; path=/\r\n".repeat(101);
    let cases = [
        ("a blank before the colon (RFC 9112 §5.1)", sized("Server : x\r\n", RULES)),
        ("in the length, too", sized("", RULES).replace("Length:", "Length \t:")),
        ("a warning of PHP", sized("PHP Warning:  x in /a.php on line 3\r\n", RULES)),
        ("a blank in a name", sized("X Foo: 1\r\n", RULES)),
        ("the status line again", sized("HTTP/1.1 200 OK\r\n", RULES)),
        ("a folded value (§5.2)", sized("X: a\r\n b\r\n", RULES)),
        ("a control character (RFC 9110 §5.5)", sized("X: a\u{1}\0b\r\n", RULES)),
        ("CR in a value", sized("X: a\rb\r\n", RULES)),
        ("a length beside chunks (RFC 9112 §6.3)", chunked("Content-Length: 3\r\n")),
        ("chunks, said twice", chunked("Transfer-Encoding: chunked\r\n")),
        ("identity (RFC 2616 §3.6)", sized("Transfer-Encoding: identity\r\n", RULES)),
        ("a length, said twice (RFC 9110 §8.6)", {
            let length = format!("Content-Length: {0}, {0}\r\n", RULES.len());
            sized(&length, RULES)
        }),
        ("101 cookies", sized(&cookies, RULES)),
        ("101 cookies and chunks", chunked(&cookies)),
        ("101 different headers", {
            sized(&(0..101).map(|n| format!("X-{n}: 1\r\n")).collect::<String>(), RULES)
        }),
        ("letters in the other case", sized("", RULES).replace("HTTP", "http")),
        ("a byte order mark before it", format!("\u{feff}{}", sized("", RULES))),
        ("empty lines before it", format!("\r\n{}", sized("X Foo: 1\r\n", RULES))),
        ("LF ends lines (§2.2)", sized("X Foo: 1\r\n", RULES).replace("\r\n", "\n")),
        ("HTTP/2 in the status line", sized("", RULES).replace("HTTP/1.1", "HTTP/2")),
        ("an interim response before it", {
            format!("HTTP/1.1 103 Early Hints\r\nX Foo: 1\r\n\r\n{}", sized("", RULES))
        }),
    ];
    for (name, bytes) in &cases {
        both(|is_secure, origin, client| {
            let origin = origin.on("/robots.txt", Script::default().send(bytes));
            let proxy = Proxy::before(&[&origin], |_| {});
            let denied = client(&proxy, &origin).get(&origin.url("/page"));
            assert_eq!(denied.reason(), "disallow_rule", "{name}, over TLS: {is_secure}");
        });
    }
    // Byte by byte, the same.
    for (name, bytes) in cases.iter().filter(|(_, bytes)| bytes.len() < 300) {
        let pause = std::time::Duration::ZERO;
        let origin = Origin::start().on("/robots.txt", Script::default().drip(bytes, pause));
        let denied = Proxy::start().get(&origin.url("/page"));
        assert_eq!(denied.reason(), "disallow_rule", "{name}, byte by byte");
    }
}

#[test]
fn a_robots_txt_whose_end_is_in_doubt_is_none() {
    let chunks = format!("{:x}\r\n{RULES}\r\n0\r\n\r\n", RULES.len());
    for (name, bytes) in [
        ("two lengths", sized("Content-Length: 5\r\n", RULES)),
        ("no number", sized("Content-Length: x\r\n", RULES)),
        ("a coding not asked for", {
            format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{chunks}")
        }),
        ("chunks in HTTP/1.0 (RFC 9112 §6.1)", {
            format!("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}")
        }),
        ("no response", "<html>\r\n\r\n".to_owned()),
        ("a head without an end", format!("HTTP/1.1 200 OK\r\nX Foo: 1\r\n{RULES}")),
        ("a head over the limit", sized(&format!("X: {}\r\n", "x".repeat(70_000)), RULES)),
    ] {
        both(|is_secure, origin, client| {
            let origin = origin.on("/robots.txt", Script::default().send(&bytes).close());
            let proxy = Proxy::before(&[&origin], |_| {});
            let denied = client(&proxy, &origin).get(&origin.url("/page"));
            assert_eq!(denied.reason(), "robots_unreachable", "{name}, over TLS: {is_secure}");
        });
    }
}

/// A robots.txt with an ordinary head leaves its connection for the page; one that was mended does
/// not: where its messages end is not certain.
#[test]
fn a_connection_whose_head_was_mended_takes_no_other_request() {
    for (name, lines, connections) in
        [("ordinary", "Server: x\r\n", 1), ("mended", "X Foo: 1\r\n", 2)]
    {
        let origin = Origin::secure()
            .on("/robots.txt", Script::default().send(sized(lines, "User-agent: *\nDisallow:\n")));
        let proxy = Proxy::before(&[&origin], |settings| settings.workers = Some(1));
        assert_eq!(proxy.https(&origin.authority()).get("/page").status(), 200, "{name}");
        assert_eq!(origin.log().connections, connections, "{name}");
    }
}

#[test]
fn a_page_is_passed_on_where_its_head_is_read_alike_by_all() {
    let cookies = "Set-Cookie: a=b; path=/\r\n".repeat(101);
    let many = (0..500).map(|n| format!("X-{n}: {n}\r\n")).collect::<String>();
    both(|is_secure, origin, client| {
        let origin = origin
            .on("/blank", Script::default().send(sized("X-Blank : 1\r\nX-Tab\t: 2\r\n", "page")))
            .on("/length", Script::default().send(sized("", "page").replace("Length:", "Length :")))
            .on("/cookies", Script::default().send(sized(&cookies, "page")))
            .on("/many", Script::default().send(sized(&many, "page")));
        let proxy = Proxy::before(&[&origin], |_| {});
        let mut client = client(&proxy, &origin);
        for _ in 0..2 {
            let page = client.get(&origin.url("/blank"));
            assert_eq!((page.status(), page.text().as_str()), (200, "page"), "{is_secure}");
            assert_eq!((page.field("x-blank"), page.field("x-tab")), (Some("1"), Some("2")));
            assert!(!page.head.0.contains(" :"), "{}", page.head.0);
            assert_eq!(client.get(&origin.url("/length")).text(), "page", "{is_secure}");
            let page = client.get(&origin.url("/cookies"));
            assert_eq!((page.status(), page.text().as_str()), (200, "page"), "{}", page.text());
            assert_eq!(page.head.all("set-cookie"), ["a=b; path=/"; 101]);
            let page = client.get(&origin.url("/many"));
            assert_eq!((page.text().as_str(), page.field("x-499")), ("page", Some("499")));
            let head = client.exchange("HEAD", &origin.url("/many"), "");
            assert_eq!(head.field("x-499"), Some("499"));
        }
    });
}

#[test]
fn a_page_of_http_2_may_have_many_headers() {
    let cookies = vec![("set-cookie", "a=b; path=/"); 101];
    let many = vec![head_with(200, &cookies, 0), data("page", END_STREAM)];
    let origin = H2Origin::start(vec![whole(404, ""), many]);
    let proxy = Proxy::before_ports(&[origin.address().port()], |_| {});
    let page = proxy.https(&origin.authority()).get("/page");
    assert_eq!((page.status(), page.text().as_str()), (200, "page"), "{}", page.text());
    assert_eq!(page.head.all("set-cookie").len(), 101);
}

/// RFC 9112 §5.2: "preferably with a representation explaining" it.
#[test]
fn what_is_refused_of_a_pages_head_is_named() {
    let long = "x".repeat(70_000);
    for (lines, status_error, names) in [
        ("X Foo: 1\r\n", "http_protocol_error", "\"X Foo: 1\" has a name that is no token"),
        ("HTTP/1.1 200 OK\r\n", "http_protocol_error", "\"HTTP/1.1 200 OK\" has no colon"),
        ("X: a\r\n b\r\n", "http_protocol_error", "\" b\" is folded"),
        ("X: a\0b\r\n", "http_protocol_error", "has a control character in its value"),
        ("Content-Length: 9\r\n", "http_protocol_error", "content-length"),
        ("Transfer-Encoding: chunked\r\n", "http_protocol_error", "Transfer-Encoding"),
        (&format!("X: {long}\r\n"), "http_response_header_section_size", "limits.max_header_bytes"),
        (
            &format!("A: 1\r\n{}X Foo: 1\r\n", "B: 2\r\n".repeat(200)),
            "http_protocol_error",
            "\"X Foo: 1\" has a name that is no token",
        ),
    ] {
        both(|is_secure, origin, client| {
            let origin = origin.on("/page", Script::default().send(sized(lines, "page")));
            let proxy = Proxy::before(&[&origin], |_| {});
            let refused = client(&proxy, &origin).get(&origin.url("/page"));
            refused.assert_error(502, status_error);
            assert!(
                refused.text().replace("\\\"", "\"").contains(names),
                "{:.60}, over TLS: {is_secure}: {}",
                lines.escape_debug(),
                refused.text()
            );
        });
    }
}

/// Bytes behind a head that is refused are never read as a response.
#[test]
fn what_follows_a_refused_head_is_no_response() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    for head in [
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n \r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "\r\n\r\nHTTP/1.1 200 OK\r\nX Foo: 1\r\n\r\n",
    ] {
        let origin = Origin::start().on("/page", Script::default().send(format!("{head}{poison}")));
        let proxy = Proxy::start();
        let mut client = proxy.client();
        let refused = client.get(&origin.url("/page"));
        assert_eq!(refused.status(), 502, "{head:?}: {}", refused.text());
        assert_eq!(client.get(&origin.url("/next")).text(), "this is /next\n", "{head:?}");
    }
}
