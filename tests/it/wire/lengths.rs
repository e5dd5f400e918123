//! RFC 9112 §6.2, RFC 9110 §8.6.

use super::case::Expect::{Cut, Forwarded, Refused, Then, Upload};
use super::case::{check, get, post};

#[test]
fn b4_b5_a_length_is_digits_and_there_is_one() {
    let length = |value: &str, body: &str| post(&format!("Content-Length:{value}\r\n"), body);
    let refused: Vec<String> = [
        " +5",
        " -5",
        " 5,5",
        " 5, 5",
        " 5,6",
        " 0x5",
        " 5_0",
        " ",
        "",
        " five",
        " 5 5",
        " 5.0",
        " 5e0",
        " 5;",
        " \"5\"",
        " 5\u{a0}",
        " \u{a0}5",
        " 5\u{85}",
        " \u{b}5",
        " 5\u{c}",
        " \u{d9}\u{a5}",
        " 18446744073709551616",
        " 18446744073709551621",
        " 99999999999999999999999",
        " 18446744073709551615",
        " 18446744073709551614",
        " 0x0",
        " 00x5",
        " 5\0",
        " 1e1",
        " (5)",
        " ,5",
        " 5,",
    ]
    .iter()
    .map(|value| length(value, "hello"))
    .collect();
    let mut cases: Vec<_> =
        refused.iter().map(|sent| ("B4", sent.as_str(), Refused(400))).collect();
    let twice = [
        post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"),
        post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
        post("Content-Length: 0\r\ncontent-length: 5\r\n", "hello"),
        post("Content-Length: 5\r\nX: y\r\nCONTENT-LENGTH: 0\r\n", "hello"),
        get("Content-Length: 0\r\nContent-Length:\r\n"),
    ];
    cases.extend(twice.iter().map(|sent| ("B4", sent.as_str(), Refused(400))));
    let passed = [
        (length(" 5", "hello"), Upload("POST /up", "hello")),
        (length("5", "hello"), Upload("POST /up", "hello")),
        (length("\t 5 \t", "hello"), Upload("POST /up", "hello")),
        (length(" 0005", "hello"), Upload("POST /up", "hello")),
        (length(" 0", ""), Upload("POST /up", "")),
        (post("", ""), Upload("POST /up", "")),
        (length(" 5", "hello") + &get(""), Forwarded(&["POST /up", "GET /page"])),
        (length(" 0", "") + &get(""), Forwarded(&["POST /up", "GET /page"])),
        (get("Content-Length: 3\r\n") + "abc" + &get(""), Forwarded(&["GET /page", "GET /page"])),
    ];
    cases.extend(passed.iter().map(|(sent, expect)| ("B4", sent.as_str(), *expect)));
    let more = length(" 5", "hello!") + "\r\n";
    cases.push(("B14", &more, Then(&["POST /up"], 400)));
    check(&cases);
}

#[test]
fn b17_a_body_that_is_cut_short_is_not_whole() {
    let cut = [
        ("B17", "POST http://{o}/up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhello", Cut),
        ("B17", "POST http://{o}/up HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", Cut),
        (
            "B17",
            "POST http://{o}/up HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551613\r\n\r\nx",
            Cut,
        ),
        (
            "B17",
            "POST http://{o}/up HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nhello",
            Cut,
        ),
    ];
    check(&cut);
}
