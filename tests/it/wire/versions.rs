//! RFC 9112 §2.3 and §3: the last part of a request line.

use super::case::Expect::{Forwarded, Refused, With};
use super::case::{check, line};

#[test]
fn b18_versions_are_known_or_refused() {
    let get = |version: &str| line(&format!("GET http://{{o}}/page {version}"));
    let refused: Vec<String> = [
        "HTTP/2.0",
        "HTTP/0.9",
        "HTTP/3.0",
        "HTTP/2",
        "HTTP/1",
        "HTTP/1.",
        "HTTP/1.10",
        "HTTP/1.11",
        "HTTP/11",
        "HTTP/01.1",
        "HTTP/1.1x",
        "HTTP/1.1\t",
        "HTTP/1.1 ",
        " HTTP/1.1",
        "http/1.1",
        "Http/1.1",
        "HTTPS/1.1",
        "ICY/1.1",
        "HTTP 1.1",
        "HTTP/1,1",
        "HTTP/-1.1",
        "HTTP/1.-1",
        "HTTP/\u{b1}.1",
        "HTTP/1.1\0",
        "/1.1",
        "1.1",
    ]
    .iter()
    .map(|version| get(version))
    .collect();
    let mut cases: Vec<_> =
        refused.iter().map(|sent| ("B18", sent.as_str(), Refused(400))).collect();
    let higher = ["HTTP/1.1", "HTTP/1.2", "HTTP/1.9"].map(get);
    cases.extend(higher.iter().map(|sent| ("B18", sent.as_str(), Forwarded(&["GET /page"]))));
    cases.extend([
        ("B18", "GET http://{o}/page\r\n\r\n", Refused(400)),
        ("B18", "GET http://{o}/page\r\nHost: x\r\n\r\n", Refused(400)),
        ("B18", "GET /page\r\n", Refused(400)),
        ("A3", "GET http://{o}/page HTTP/1.0\r\n\r\n", Forwarded(&["GET /page"])),
        ("C12", "GET http://{o}/page HTTP/1.0\r\nExpect: tea\r\n\r\n", With(&["-Expect"])),
        (
            "B15",
            "GET http://{o}/page HTTP/1.0\r\n\r\nGET http://{o}/behind HTTP/1.0\r\n\r\n",
            Forwarded(&["GET /page"]),
        ),
        ("B13", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}", Refused(400)),
        ("B13", "EHLO example.com\r\n", Refused(400)),
        ("B13", "SSH-2.0-x\r\n", Refused(400)),
        ("B13", "{\"json\": true}\r\n\r\n", Refused(400)),
        ("B13", "\0\0\0\0", Refused(400)),
    ]);
    check(&cases);
}
