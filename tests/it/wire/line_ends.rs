//! RFC 9112 §2.2 and §5.2: where lines end, and what may not stand in them.

use super::case::Expect::{Forwarded, Refused};
use super::case::{check, get};

#[test]
fn b9_b10_b11_no_line_is_two() {
    let refused: Vec<String> = [
        "X: a\r\n b\r\n",
        "X: a\r\n\tb\r\n",
        "X: a\r\n \r\n",
        "X: a\r\n Content-Length: 5\r\n",
        "Content-Length: 0\r\n 5\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "X: a\n b\r\n",
        "X: a\rb\r\n",
        "X: a\rContent-Length: 5\r\n",
        "X: a\r\rY: b\r\n",
        "X: a\r\r\n",
        "X\r: a\r\n",
        "\rX: a\r\n",
        "X: a\0b\r\n",
        "X: \0\r\n",
        "X\0: a\r\n",
        "\0: a\r\n",
        "X: a\u{1}b\r\n",
        "X: a\u{8}b\r\n",
        "X: a\u{b}b\r\n",
        "X: a\u{c}b\r\n",
        "X: a\u{1b}[2J\r\n",
        "X: a\u{7f}b\r\n",
        "X: \u{b}a\r\n",
        "X: a\u{c}\r\n",
        "\r \r\n",
        " \r\n",
        "\t\r\n",
        "\u{b}X: a\r\n",
    ]
    .iter()
    .map(|fields| get(fields))
    .collect();
    let mut cases: Vec<_> =
        refused.iter().map(|sent| ("B10", sent.as_str(), Refused(400))).collect();
    let first = "GET http://{o}/page HTTP/1.1\r\n";
    let leading = [
        " Host: x\r\n\r\n",
        "\tHost: x\r\n\r\n",
        " \r\nHost: x\r\n\r\n",
        " X: y\r\nHost: x\r\n\r\n",
        "\u{b}\r\nHost: x\r\n\r\n",
    ]
    .map(|rest| format!("{first}{rest}"));
    cases.extend(leading.iter().map(|sent| ("B11", sent.as_str(), Refused(400))));
    check(&cases);
}

#[test]
fn b13_line_ends_and_empty_lines_that_are_tolerated() {
    let whole = "GET http://{o}/page HTTP/1.1\r\nHost: x\r\n\r\n";
    let tolerated = [
        format!("\r\n{whole}"),
        format!("\n{whole}"),
        format!("\r\n\r\n\n\r\n{whole}"),
        whole.replace("\r\n", "\n"),
        "GET http://{o}/page HTTP/1.1\nHost: x\r\n\r\n".into(),
        "GET http://{o}/page HTTP/1.1\r\nHost: x\n\r\n".into(),
        "GET http://{o}/page HTTP/1.1\r\nHost: x\r\n\n".into(),
    ];
    let mut cases: Vec<_> =
        tolerated.iter().map(|sent| ("B13", sent.as_str(), Forwarded(&["GET /page"]))).collect();
    let between = format!("{whole}\r\n\r\n{whole}");
    cases.push(("B13", &between, Forwarded(&["GET /page", "GET /page"])));
    let refused = [
        format!("\r{whole}"),
        format!(" {whole}"),
        format!("\t\r\n{whole}"),
        format!("\0{whole}"),
        format!("\u{ef}\u{bb}\u{bf}{whole}"),
        format!("x\r\n{whole}"),
        format!("\r\n \r\n{whole}"),
        "GET http://{o}/page HTTP/1.1\rHost: x\r\r".into(),
        "GET http://{o}/page HTTP/1.1\r\r\nHost: x\r\n\r\n".into(),
        "GET http://{o}/page HTTP/1.1\r\nHost: x\r\n".into(),
        "GET http://{o}/pa".into(),
    ];
    cases.extend(refused.iter().map(|sent| ("B13", sent.as_str(), Refused(400))));
    check(&cases);
}
