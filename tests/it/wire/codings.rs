//! RFC 9112 §6.1 and §6.3: what frames a request beside its length.

use super::case::Expect::{Forwarded, Refused, Upload};
use super::case::{check, get, post};

const BODY: &str = "5\r\nhello\r\n0\r\n\r\n";

#[test]
fn b1_a_length_beside_chunks_is_refused() {
    let both: Vec<String> = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Content-Length: 15\r\nX: y\r\ntransfer-encoding: Chunked\r\n",
        "Transfer-Encoding: chunked\r\nX: y\r\nCONTENT-LENGTH: 999\r\n",
        "Content-Length: 5\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nConnection: Content-Length\r\nTransfer-Encoding: chunked\r\n",
    ]
    .iter()
    .map(|fields| post(fields, BODY))
    .collect();
    check(&both.iter().map(|sent| ("B1", sent.as_str(), Refused(400))).collect::<Vec<_>>());
}

#[test]
fn b2_a_coding_besides_chunked_is_refused() {
    let coded: Vec<String> = [
        " gzip",
        " identity",
        " chunked, gzip",
        " gzip, chunked",
        " chunked, chunked",
        " chunked,",
        " ,chunked",
        " xchunked",
        " chunked x",
        " chunked;q=1",
        " \"chunked\"",
        " 'chunked'",
        " chunke",
        "",
        " ",
        " ,",
        " \u{b}chunked",
        " chunked\u{b}",
        " chunked\u{c}",
        " \u{85}chunked",
        " chunked\u{a0}",
        " chunked\0",
        " identity, chunked",
        " cow",
        " chunked\u{1f}",
    ]
    .iter()
    .map(|value| post(&format!("Transfer-Encoding:{value}\r\n"), BODY))
    .collect();
    let twice: Vec<String> = [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip\r\ntransfer-encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding:\r\n",
    ]
    .iter()
    .map(|fields| post(fields, BODY))
    .collect();
    let mut cases: Vec<_> =
        coded.iter().chain(&twice).map(|sent| ("B2", sent.as_str(), Refused(400))).collect();
    let passed = [
        (post("Transfer-Encoding: chunked\r\n", BODY), Upload("POST /up", "hello")),
        (post("transfer-ENCODING:CHUNKED\r\n", BODY), Upload("POST /up", "hello")),
        (post("Transfer-Encoding: \tchunked \r\n", BODY), Upload("POST /up", "hello")),
        (
            post("Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding\r\n", BODY),
            Upload("POST /up", "hello"),
        ),
        (
            post("Transfer-Encoding: chunked\r\n", BODY) + &get(""),
            Forwarded(&["POST /up", "GET /page"]),
        ),
        (get("Transfer-Encoding: chunked\r\n") + BODY, Upload("GET /page", "hello")),
        (
            get("Transfer-Encoding: chunked\r\n") + BODY + &get(""),
            Forwarded(&["GET /page", "GET /page"]),
        ),
        // Another field's name is no framing.
        (get("Transfer_Encoding: chunked\r\nContent_Length: 5\r\n"), Forwarded(&["GET /page"])),
        (get("X-Transfer-Encoding: chunked\r\n"), Forwarded(&["GET /page"])),
    ];
    cases.extend(passed.iter().map(|(sent, expect)| ("B2", sent.as_str(), *expect)));
    check(&cases);
}

#[test]
fn b3_http_1_0_has_no_coding() {
    let head = "POST http://{o}/up HTTP/1.0\r\n";
    let cases = [
        ("B3", format!("{head}Transfer-Encoding: chunked\r\n\r\n{BODY}"), Refused(400)),
        (
            "B3",
            format!("{head}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n{BODY}"),
            Refused(400),
        ),
        ("B3", format!("{head}Transfer-Encoding: identity\r\n\r\nhello"), Refused(400)),
        (
            "B3",
            format!("{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{BODY}"),
            Refused(400),
        ),
        ("B3", format!("{head}Content-Length: 5\r\n\r\nhello"), Upload("POST /up", "hello")),
    ];
    check(&cases.each_ref().map(|(row, sent, expect)| (*row, sent.as_str(), *expect)));
}
