//! RFC 9112 §9.3.2 and §11.2: one request behind another.

use super::case::Expect::{Forwarded, Own, Row, Then};
use super::case::check;

#[test]
fn b14_b15_b20_d11_requests_in_a_row_stay_apart() {
    let to = |path: &str| format!("GET http://{{o}}{path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let with = |path: &str, fields: &str| {
        format!("GET http://{{o}}{path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
    };
    let up = |body: &str| {
        format!("POST http://{{o}}/up HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{body}")
    };
    let denied_up = "POST http://{o}/private HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    let switch = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let cases = [
        ("D11", to("/1") + &to("/2") + &to("/3"), Forwarded(&["GET /1", "GET /2", "GET /3"])),
        ("D11", to("/1") + &up("hello") + &to("/3"), Forwarded(&["GET /1", "POST /up", "GET /3"])),
        (
            "D11",
            to("/1") + &to("/private") + &to("/3"),
            Row(&[200, 403, 200], &["GET /1", "GET /3"]),
        ),
        ("D11", to("/private") + &to("/private/2"), Row(&[403, 403], &[])),
        ("D11", to("/robots.txt") + &to("/2"), Row(&[200, 200], &["GET /2"])),
        ("B14", to("/1") + "GET http://{o}/2 HTTP/1.1\r\nHost : x\r\n\r\n", Then(&["GET /1"], 400)),
        ("B14", to("/1") + "garbage\r\n\r\n", Then(&["GET /1"], 400)),
        ("B14", to("/1") + &to("/2") + "\0", Then(&["GET /1", "GET /2"], 400)),
        ("B14", up("hello") + "hello\r\n", Then(&["POST /up"], 400)),
        ("B14", up("GET /") + &to("/2"), Forwarded(&["POST /up", "GET /2"])),
        ("B15", with("/1", "Connection: close\r\n") + &to("/behind"), Forwarded(&["GET /1"])),
        ("B15", with("/1", "Connection: x, CLOSE\r\n") + &to("/behind"), Forwarded(&["GET /1"])),
        (
            "B15",
            with("/1", "Connection: close\r\nConnection: keep-alive\r\n") + &to("/behind"),
            Forwarded(&["GET /1"]),
        ),
        ("B16", denied_up.to_owned(), Own(403)),
        ("B20", with("/1", switch) + &to("/2"), Forwarded(&["GET /1", "GET /2"])),
        ("B20", with("/private", switch) + &to("/2"), Row(&[403, 200], &["GET /2"])),
        ("B20", with("/1", switch) + "\0\u{1}\u{2}", Then(&["GET /1"], 400)),
    ];
    check(
        &cases.iter().map(|(row, sent, expect)| (*row, sent.as_str(), *expect)).collect::<Vec<_>>(),
    );
}
