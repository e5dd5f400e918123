//! RFC 9110 §5, RFC 9112 §5: names and values.

use super::case::Expect::{Forwarded, Own, Refused, With};
use super::case::{check, get, post};

#[test]
fn b8_b12_names_are_tokens_up_to_the_colon() {
    let refused: Vec<String> = [
        "X : a\r\n",
        "X\t: a\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding\u{b}: chunked\r\n",
        ": a\r\n",
        " : a\r\n",
        "X\r\n",
        "X Y: a\r\n",
        "(X): a\r\n",
        "X/Y: a\r\n",
        "X@Y: a\r\n",
        "X[1]: a\r\n",
        "\"X\": a\r\n",
        "X=Y: a\r\n",
        "X\u{e9}: a\r\n",
        "\u{a0}X: a\r\n",
        "X\u{85}: a\r\n",
        "GET http://{o}/private HTTP/1.1\r\n",
        "=: a\r\n",
        "X,Y: a\r\n",
        "{X}: a\r\n",
        "X\\Y: a\r\n",
    ]
    .iter()
    .map(|fields| get(fields))
    .collect();
    check(&refused.iter().map(|sent| ("B8", sent.as_str(), Refused(400))).collect::<Vec<_>>());
}

#[test]
fn b12_c5_c9_c16_other_fields_go_on_as_they_are() {
    let passed = [
        (
            get("X-A: 1\r\nX-B: x\r\nx-a: 2\r\nX-A: 3, 4\r\n"),
            With(&["X-A: 1", "X-A: 2", "X-A: 3, 4", "X-B: x"]),
        ),
        (get("X-Empty:\r\nX-Tab: a\tb\r\n"), With(&["X-Tab: a\tb", "X-Empty: "])),
        (get("X-Latin: caf\u{e9}\u{ff}\u{80}\r\n"), With(&["X-Latin: caf\u{e9}\u{ff}\u{80}"])),
        (get("!#$%&'*+-.^_`|~: a\r\n"), With(&["!#$%&'*+-.^_`|~: a"])),
        (
            get("X-Colon: a:b: c\r\nX-Quoted: \"a,\\\" b\"\r\n"),
            With(&["X-Colon: a:b: c", "X-Quoted: \"a,\\\" b\""]),
        ),
        (
            get("Forwarded: for=10.0.0.1\r\nX-Forwarded-For: 10.0.0.1\r\n"),
            With(&["Forwarded: for=10.0.0.1", "X-Forwarded-For: 10.0.0.1"]),
        ),
        (
            get(""),
            With(&[
                "-Forwarded",
                "-X-Forwarded-For",
                "-X-Real-IP",
                "-Max-Forwards",
                "-Connection",
                "-User-Agent",
            ]),
        ),
        (get("CDN-Loop: a\r\nCDN-Loop: b\r\n"), With(&["CDN-Loop: a", "CDN-Loop: b"])),
        (
            get("Accept-Encoding: br\r\nCache-Control: no-transform\r\n"),
            With(&["Accept-Encoding: br", "Cache-Control: no-transform"]),
        ),
        (
            post("Authorization: Basic eA==\r\nCookie: a=b; c=d\r\n", ""),
            With(&["Authorization: Basic eA==", "Cookie: a=b; c=d"]),
        ),
    ];
    check(&passed.iter().map(|(sent, expect)| ("C5", sent.as_str(), *expect)).collect::<Vec<_>>());
}

#[test]
fn c10_c11_max_forwards_counts_where_it_means_something() {
    let asked = |method: &str, count: &str| {
        format!("{method} http://{{o}}/page HTTP/1.1\r\nHost: x\r\nMax-Forwards: {count}\r\n\r\n")
    };
    let cases = [
        (asked("OPTIONS", "0"), Own(204)),
        (asked("OPTIONS", "1"), With(&["Max-Forwards: 0"])),
        (asked("OPTIONS", "10"), With(&["Max-Forwards: 9"])),
        (asked("TRACE", "0"), Own(405)),
        (asked("TRACE", "2"), With(&["Max-Forwards: 1"])),
        (asked("GET", "0"), With(&["Max-Forwards: 0"])),
        (asked("POST", "5"), With(&["Max-Forwards: 5"])),
    ];
    check(&cases.iter().map(|(sent, expect)| ("C10", sent.as_str(), *expect)).collect::<Vec<_>>());
}

#[test]
fn c12_an_expectation_is_met_or_said_to_be_unknown() {
    let cases = [
        (get("Expect: tea\r\n"), Own(417)),
        (get("Expect: 100-continue, tea\r\n"), Own(417)),
        (get("Expect: 100-continue\r\nExpect: tea\r\n"), Own(417)),
        (get("Expect: 100-Continue\r\n"), Forwarded(&["GET /page"])),
        (post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello"), Forwarded(&["POST /up"])),
    ];
    check(&cases.iter().map(|(sent, expect)| ("C12", sent.as_str(), *expect)).collect::<Vec<_>>());
}
