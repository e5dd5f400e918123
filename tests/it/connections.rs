//! Connections: kept, closed, tried again, turned into tunnels, and never leading back here.

use std::time::Duration;

use crate::testkit::parties::{Origin, Proxy, Script, answer, ok, request};

const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn connections_are_kept_on_both_sides() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for number in 0..5 {
        let response = client.get(&origin.url(&format!("/{number}")));
        assert_eq!(response.status(), 200);
        assert_ne!(response.field("connection"), Some("close"));
    }
    let log = origin.log();
    assert_eq!(log.connections, 2, "one for the robots.txt, one for the pages");
    assert!(log.requests[1..].iter().all(|request| request.connection == 2));
}

#[test]
fn a_connection_is_kept_behind_an_answer_in_chunks() {
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let origin = Origin::start().on("/chunks", Script::default().send(chunks));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for _ in 0..3 {
        assert_eq!(client.get(&origin.url("/chunks")).text(), "hello");
    }
    assert_eq!(origin.log().connections, 2, "one for the robots.txt, one for the chunks");
}

#[test]
fn a_connection_that_either_side_wants_closed_is_closed() {
    let origin = Origin::start().on(
        "/closing",
        Script::default().send(answer(200, "Connection: close\r\n", "bye")).close(),
    );
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/closing")).text(), "bye");
    assert_eq!(
        client.get(&origin.url("/next")).status(),
        200,
        "the origin's wish is not the client's"
    );
    let last = client.exchange("GET", &origin.url("/last"), "Connection: close\r\n");
    assert_eq!(last.field("connection"), Some("close"));
    client.assert_closed();
    let log = origin.log();
    let by = |path: &str| log.requests.iter().find(|it| it.path() == path).map(|it| it.connection);
    assert_ne!(by("/closing"), by("/next"));
    assert_eq!(by("/next"), by("/last"), "the client's wish is not the origin's");
}

#[test]
fn b15_requests_behind_the_last_one_are_not_processed() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let last = request("GET", &origin.url("/last"), "Connection: close\r\n");
    client.send(last + &request("GET", &origin.url("/behind"), ""));
    assert_eq!(client.read().status(), 200);
    client.assert_closed();
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /last"]);
}

/// A kept connection that its origin closes just then: nothing was answered, so what is safe to
/// repeat is sent once more (RFC 9110 §9.2.2).
#[test]
fn d9_a_get_is_sent_again_when_a_kept_connection_turns_out_closed() {
    let origin =
        Origin::start().on("/again", Script::default().close()).then("/again", ok("at last"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.get(&origin.url("/first"));
    assert_eq!(client.get(&origin.url("/again")).text(), "at last");
    assert_eq!(origin.count("/again"), 2);
}

#[test]
fn d9_a_post_is_never_sent_again() {
    let origin =
        Origin::start().on("/again", Script::default().close()).then("/again", ok("at last"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.get(&origin.url("/first"));
    client.ask("POST", &origin.url("/again"), "Content-Length: 4\r\n").send("body");
    client.read().assert_error(502, "connection_terminated");
    assert_eq!(origin.count("/again"), 1);
}

#[test]
fn a_fresh_connection_is_not_tried_twice_nor_a_kept_one_thrice() {
    let origin = Origin::start().on("/closing", Script::default().close());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.get(&origin.url("/closing")).assert_error(502, "connection_terminated");
    assert_eq!(origin.count("/closing"), 1);
    client.get(&origin.url("/first"));
    client.get(&origin.url("/closing")).assert_error(502, "connection_terminated");
    assert_eq!(origin.count("/closing"), 3);
}

#[test]
fn an_origin_that_closes_its_kept_connections_is_connected_to_anew() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.get(&origin.url("/first"));
    origin.close_connections();
    assert_eq!(client.get(&origin.url("/second")).status(), 200);
    assert_eq!(origin.count("/second"), 1);
}

#[test]
fn d15_an_upgraded_connection_carries_bytes_both_ways() {
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                  Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nhello";
    let origin = Origin::start().on("/socket", Script::default().send(switch).echo());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    let head = client.ask("GET", &origin.url("/socket"), UPGRADE).read_head();
    assert_eq!(head.status(), 101);
    assert_eq!(head.field("upgrade"), Some("websocket"));
    assert_eq!(head.field("connection").map(str::to_ascii_lowercase).as_deref(), Some("upgrade"));
    assert_eq!(head.field("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(client.read_bytes(5), b"hello");
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    for piece in bytes.chunks(1000) {
        client.send(piece);
        assert_eq!(client.read_bytes(piece.len()), piece);
    }
    client.finish_sending();
    client.assert_closed();
    let received = origin.received("/socket");
    assert_eq!(received.field("upgrade"), Some("websocket"));
    assert_eq!(received.field("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
}

/// Only a 101 switches: bytes sent early stay here until then (RFC 9110 §7.8).
#[test]
fn b20_bytes_behind_an_upgrade_request_wait_for_the_switch() {
    let refused = Script::default().send(answer(200, "", "no switch"));
    let origin = Origin::start().on("/socket", refused);
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.send(
        request("GET", &origin.url("/socket"), UPGRADE)
            + &request("GET", &origin.url("/smuggled"), ""),
    );
    assert_eq!(client.read().text(), "no switch");
    assert_eq!(client.read().text(), "this is /smuggled\n", "as a request of its own, and judged");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /socket", "GET /smuggled"]);
    assert!(origin.received("/socket").body.is_empty());
}

#[test]
fn d5_a_switch_that_nobody_asked_for_is_refused() {
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start().on("/page", Script::default().send(switch));
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page")).assert_error(502, "http_protocol_error");
    let other = "Connection: Upgrade\r\nUpgrade: tls/1.2\r\n";
    proxy.exchange("GET", &origin.url("/page"), other).assert_error(502, "http_protocol_error");
}

/// The rest of the content would be taken for the new protocol.
#[test]
fn d5_a_switch_before_the_request_is_whole_is_refused() {
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start().on("/socket", Script::default().leave_body().send(switch).echo());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client
        .ask("POST", &origin.url("/socket"), &format!("{UPGRADE}Content-Length: 10\r\n"))
        .send("begin");
    let refused = client.read();
    refused.assert_error(502, "http_protocol_error");
    assert_eq!(refused.field("connection"), Some("close"));
}

#[test]
fn c4_an_upgrade_to_h2c_is_never_passed_on() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let fields =
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    assert_eq!(proxy.exchange("GET", &origin.url("/page"), fields).status(), 200);
    let received = origin.received("/page");
    assert_eq!((received.field("upgrade"), received.field("http2-settings")), (None, None));
}

#[test]
fn c15_a_request_that_has_been_here_before_is_a_loop() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    proxy.get(&origin.url("/page"));
    let via = origin.received("/page").field("via").expect("our Via").to_owned();
    let again = proxy.exchange("GET", &origin.url("/again"), &format!("Via: 1.1 other, {via}\r\n"));
    again.assert_error(502, "proxy_loop_detected");
    assert_eq!(origin.count("/again"), 0);
    let other = Proxy::start();
    let through = other.exchange("GET", &origin.url("/again"), &format!("Via: {via}\r\n"));
    assert_eq!(through.status(), 200, "two proxies in a row are no loop");
}

#[test]
fn slowloris_idle_connections_of_clients_are_closed() {
    let proxy = Proxy::with(|settings| settings.limits.idle_timeout = Duration::from_millis(100));
    let origin = Origin::start();
    let mut silent = proxy.client();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    client.assert_closed();
    silent.assert_closed();
}

#[test]
fn a_tunnel_that_nobody_uses_is_closed() {
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start().on("/socket", Script::default().send(switch).echo());
    let proxy =
        Proxy::with(|settings| settings.limits.tunnel_idle_timeout = Duration::from_secs(2));
    let mut client = proxy.client();
    assert_eq!(client.ask("GET", &origin.url("/socket"), UPGRADE).read_head().status(), 101);
    client.send("x");
    assert_eq!(client.read_bytes(1), b"x");
    client.assert_closed();
}

#[test]
fn requests_beyond_the_bound_on_one_origin_wait_for_their_turn() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "slow")));
    let proxy = Proxy::with(|settings| settings.egress.max_per_origin = 2);
    proxy.get(&origin.url("/"));
    let mut clients: Vec<_> = (0..6)
        .map(|_| {
            let mut client = proxy.client();
            client.ask("GET", &origin.url("/slow"), "");
            client
        })
        .collect();
    origin.wait_until("two are there", |log| log.requests.len() == 4);
    assert_eq!(
        proxy.get(&origin.named("other", "/")).status(),
        200,
        "another origin does not wait"
    );
    assert_eq!(origin.count("/slow"), 2);
    origin.release();
    for client in &mut clients {
        assert_eq!(client.read().text(), "slow");
    }
}
