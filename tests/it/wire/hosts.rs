//! RFC 9112 §3.2: the target counts, but a request without one valid Host is refused.

use super::case::Expect::{Forwarded, Refused};
use super::case::check;

#[test]
fn a2_a3_host_is_there_once_is_valid_and_does_not_count() {
    let first = "GET http://{o}/page HTTP/1.1\r\n";
    let refused: Vec<String> = [
        "",
        "Host: a\r\nHost: b\r\n",
        "Host: {o}\r\nHost: {o}\r\n",
        "Host: a\r\nhost:\r\n",
        "Host: a b\r\n",
        "Host: a, b\r\n",
        "Host: u@a\r\n",
        "Host: u:p@{o}\r\n",
        "Host: http://a\r\n",
        "Host: a/b\r\n",
        "Host: a?b\r\n",
        "Host: a#b\r\n",
        "Host: [::1\r\n",
        "Host: a\\b\r\n",
        "Host: \u{e9}\r\n",
        "Host: a\0\r\n",
        "Host: a:b\r\n",
        "Host: :80\r\n",
        "Host: a:99999\r\n",
        "X: Host: a\r\n",
        "Host : a\r\n",
        "Host: \"a\"\r\n",
        "Host: <a>\r\n",
    ]
    .iter()
    .map(|host| format!("{first}{host}\r\n"))
    .collect();
    let mut cases: Vec<_> =
        refused.iter().map(|sent| ("A3", sent.as_str(), Refused(400))).collect();
    let ignored: Vec<String> = [
        "Host: {o}\r\n",
        "Host: other.example\r\n",
        "Host: other.example:8080\r\n",
        "Host:\r\n",
        "HOST: {o}\r\n",
        "X: y\r\nhost: 127.0.0.1\r\n",
        "Host: [::1]:80\r\n",
        "Host: 169.254.169.254\r\n",
    ]
    .iter()
    .map(|host| format!("{first}{host}\r\n"))
    .collect();
    cases.extend(ignored.iter().map(|sent| ("A2", sent.as_str(), Forwarded(&["GET /page"]))));
    cases.extend([
        ("A10", "GET /page HTTP/1.1\r\nHost: {o}\r\n\r\n", Refused(400)),
        ("A10", "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n", Refused(400)),
        ("A3", "GET http://{o}/page HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", Refused(400)),
    ]);
    check(&cases);
}
