//! RFC 9110 §7.6.1 and §7.8: what is for one hop only.

use super::case::Expect::{Upload, With};
use super::case::{check, get, post};

#[test]
fn c1_c2_c4_c7_what_is_for_one_hop_stays_here() {
    let cases = [
        (get("Connection: X-Mine\r\nX-Mine: 1\r\n"), With(&["-X-Mine", "-Connection"])),
        (get("Connection: X-Mine\r\nX-Mine: 1\r\nx-mine: 2\r\nX-MINE: 3\r\n"), With(&["-X-Mine"])),
        (
            get("Connection: ,, X-Mine ,\tX-Other,\r\nX-Mine: 1\r\nX-Other: 2\r\n"),
            With(&["-X-Mine", "-X-Other"]),
        ),
        (
            get("Connection: keep-alive\r\nconnection: x-mine\r\nX-Mine: 1\r\n"),
            With(&["-X-Mine", "-Connection"]),
        ),
        (get("Connection: close, Cookie\r\nCookie: a=b\r\n"), With(&["-Cookie", "-Connection"])),
        (get("Connection:\r\nX-Kept: 1\r\n"), With(&["-Connection", "X-Kept: 1"])),
        (get("Connection: (\r\nX-Kept: 1\r\n"), With(&["-Connection", "X-Kept: 1"])),
        (get("X-Mine: 1\r\nConnection: X-Mine\r\n"), With(&["-X-Mine"])),
        (
            get("Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n"),
            With(&["-Keep-Alive", "-Proxy-Connection"]),
        ),
        (get("TE: gzip\r\n"), With(&["-TE", "-Connection"])),
        (get("TE: gzip;q=1, deflate\r\nConnection: TE\r\n"), With(&["-TE"])),
        (get("TE: trailers\r\nConnection: TE\r\n"), With(&["TE: trailers"])),
        (
            get(
                "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n",
            ),
            With(&["-Upgrade", "-HTTP2-Settings"]),
        ),
        (get("Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n"), With(&["Upgrade: websocket"])),
        (get("Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n"), With(&["-Upgrade", "-Connection"])),
        (get("Upgrade: websocket\r\n"), With(&["-Upgrade"])),
        (get("Upgrade: websocket\r\nConnection: Upgrade\r\n"), With(&["Upgrade: websocket"])),
        (get("HTTP2-Settings: AAMAAABk\r\n"), With(&["-HTTP2-Settings"])),
        (get("Proxy-Authorization: Basic eDp5\r\n"), With(&["-Proxy-Authorization"])),
        (
            get("Proxy-Authorization: Basic eDp5\r\nproxy-authorization: Bearer x\r\n"),
            With(&["-Proxy-Authorization"]),
        ),
        (
            get("Proxy-Authenticate: Basic\r\nProxy-Authentication-Info: x\r\n"),
            With(&["-Proxy-Authenticate", "-Proxy-Authentication-Info"]),
        ),
        (get("Trailer: X-Sum\r\n"), With(&["-Proxy-Connection"])),
    ];
    check(&cases.iter().map(|(sent, expect)| ("C1", sent.as_str(), *expect)).collect::<Vec<_>>());
}

#[test]
fn c3_connection_strips_nothing_that_frames_or_routes() {
    let cases = [
        (
            post("Connection: Content-Length\r\nContent-Length: 5\r\n", "hello"),
            Upload("POST /up", "hello"),
        ),
        (
            post("Connection: close, Host, content-length\r\nContent-Length: 5\r\n", "hello"),
            Upload("POST /up", "hello"),
        ),
        (
            post(
                "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n",
                "5\r\nhello\r\n0\r\n\r\n",
            ),
            Upload("POST /up", "hello"),
        ),
        (get("Connection: Host\r\n"), With(&["-Connection"])),
        (get("Connection: Via\r\n"), With(&["-Connection"])),
    ];
    check(&cases.iter().map(|(sent, expect)| ("C3", sent.as_str(), *expect)).collect::<Vec<_>>());
}
