//! RFC 9110 §9.3.6: tunnels, and what is sent inside them or in hope of them.

use super::case::Expect::{Inside, Refused, Tunnel};
use super::case::check;

fn connect(fields: &str, inside: &str) -> String {
    format!("CONNECT {{o}} HTTP/1.1\r\nHost: {{o}}\r\n{fields}\r\n{inside}")
}

const GET: &str = "GET /page HTTP/1.1\r\nHost: {o}\r\n\r\n";

#[test]
fn b21_d13_a_connect_is_for_a_host_and_a_port_and_has_no_content() {
    let refused: Vec<String> = [
        "127.0.0.1",
        "127.0.0.1:",
        ":{p}",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:+{p}",
        "user@127.0.0.1:{p}",
        "127.1:{p}",
        "2130706433:{p}",
        "[::1:{p}",
        "[127.0.0.1]:{p}",
        "http://{o}/",
        "{o}/path",
        "{o}?x",
        "{o}#x",
        "/",
        "*",
        "a..b:{p}",
        "127.0.0.1:{p} ",
        "127.0.0.1%00:{p}",
        "127.0.0.1 :{p}",
    ]
    .iter()
    .map(|target| format!("CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\n{GET}"))
    .collect();
    let framed = [
        connect("Content-Length: 5\r\n", GET),
        connect("Content-Length: 99999\r\n", GET),
        connect("Transfer-Encoding: chunked\r\n", GET),
        connect("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", GET),
        connect("Content-Length: x\r\n", GET),
        connect("Host: {o}\r\n", GET),
    ];
    check(
        &refused
            .iter()
            .chain(&framed)
            .map(|sent| ("D13", sent.as_str(), Refused(400)))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn d14_what_runs_inside_a_tunnel_is_judged() {
    let cases = [
        (connect("", GET), Tunnel(&["GET /page"])),
        (connect("", &GET.repeat(3)), Tunnel(&["GET /page", "GET /page", "GET /page"])),
        (connect("Content-Length: 0\r\n", GET), Tunnel(&["GET /page"])),
        (connect("Connection: close\r\n", GET), Tunnel(&["GET /page"])),
        (connect("Proxy-Authorization: Basic eDp5\r\n", GET), Tunnel(&["GET /page"])),
        (
            format!("CONNECT {{o}} HTTP/1.1\r\nHost: other.example\r\n\r\n{GET}"),
            Tunnel(&["GET /page"]),
        ),
        (format!("CONNECT {{o}} HTTP/1.0\r\n\r\n{GET}"), Tunnel(&["GET /page"])),
        (connect("", "GET http://{o}/page HTTP/1.1\r\nHost: {o}\r\n\r\n"), Tunnel(&["GET /page"])),
        (connect("", "OPTIONS * HTTP/1.1\r\nHost: {o}\r\n\r\n"), Tunnel(&["OPTIONS *"])),
        (connect("", "OPTIONS http://{o} HTTP/1.1\r\nHost: {o}\r\n\r\n"), Tunnel(&["OPTIONS *"])),
    ];
    let mut all: Vec<_> =
        cases.iter().map(|(sent, expect)| ("D14", sent.as_str(), *expect)).collect();
    let refused: Vec<String> = [
        "GET /page HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET /page HTTP/1.1\r\nHost: {o}\r\nHost: {o}\r\n\r\n",
        "GET /page HTTP/1.1\r\n\r\n",
        "GET http://other.example/page HTTP/1.1\r\nHost: {o}\r\n\r\n",
        "GET https://{o}/page HTTP/1.1\r\nHost: {o}\r\n\r\n",
        "CONNECT {o} HTTP/1.1\r\nHost: {o}\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: {o}\r\n\r\n",
        "GET /page#x HTTP/1.1\r\nHost: {o}\r\n\r\n",
        "POST /up HTTP/1.1\r\nHost: {o}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /up HTTP/1.1\r\nHost: {o}\r\nTransfer-Encoding: gzip\r\n\r\n",
        "GET /page HTTP/1.1\r\nHost : {o}\r\n\r\n",
    ]
    .iter()
    .map(|inside| connect("", inside))
    .collect();
    all.extend(refused.iter().map(|sent| ("D14", sent.as_str(), Inside(400))));
    check(&all);
}
