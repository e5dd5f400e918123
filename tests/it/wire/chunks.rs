//! RFC 9112 §7.1: chunk lines, extensions, trailers.

use super::case::Expect::{Cut, Forwarded, Upload, With};
use super::case::{check, get, post};

fn chunked(body: &str) -> String {
    post("Transfer-Encoding: chunked\r\n", body)
}

#[test]
fn b5_b6_chunks_are_as_the_grammar_has_them() {
    let broken: Vec<String> = [
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "\t5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\u{a0}\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\rXhello\r\n0\r\n\r\n",
        "5\r\nhello\rX0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "5\r\nhell\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        ";x\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\rbcd\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX: a\r\n b\r\n\r\n",
        "0\r\nX: a\rb\r\n\r\n",
        "0\r\nX: a\0b\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\n: y\r\n\r\n",
    ]
    .iter()
    .map(|body| chunked(body))
    .collect();
    let long = chunked(&format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(20_000)));
    let mut cases: Vec<_> = broken.iter().map(|sent| ("B6", sent.as_str(), Cut)).collect();
    cases.push(("B6", &long, Cut));
    let passed = [
        ("5\r\nhello\r\n0\r\n\r\n", "hello"),
        ("05\r\nhello\r\n00\r\n\r\n", "hello"),
        ("1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", "hello"),
        ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
        ("a\r\n0\r\n\r\n\r\nGET\r\n0\r\n\r\n", "0\r\n\r\n\r\nGET"),
        ("5;x=y\r\nhello\r\n0;z\r\n\r\n", "hello"),
        ("5 ; x=\"a;b\"\r\nhello\r\n0\r\n\r\n", "hello"),
        ("0\r\n\r\n", ""),
    ]
    .map(|(sent, body)| (chunked(sent), Upload("POST /up", body)));
    cases.extend(passed.iter().map(|(sent, expect)| ("B6", sent.as_str(), *expect)));
    let next = chunked("5\r\nhello\r\n0\r\n\r\n") + &get("");
    cases.push(("B6", &next, Forwarded(&["POST /up", "GET /page"])));
    check(&cases);
}

#[test]
fn b7_trailers_never_become_fields() {
    let trailed: Vec<String> = [
        "Content-Length: 9",
        "Transfer-Encoding: gzip",
        "Host: other.example",
        "Authorization: Basic eA==",
        "Cookie: a=b",
        "Connection: close",
        "X-Sum: 1",
    ]
    .iter()
    .map(|trailer| {
        let fields = "Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-Sum, Host, Cookie\r\n";
        post(fields, &format!("5\r\nhello\r\n0\r\n{trailer}\r\n\r\n"))
    })
    .collect();
    let expect = With(&[
        "-Content-Length",
        "Transfer-Encoding: chunked",
        "-Authorization",
        "-Cookie",
        "-X-Sum",
    ]);
    check(&trailed.iter().map(|sent| ("B7", sent.as_str(), expect)).collect::<Vec<_>>());
}
