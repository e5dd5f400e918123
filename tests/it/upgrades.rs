//! What a connection may be upgraded to: only what is listed. Behind a 101 nobody judges anything.

use serde_json::Value;

use crate::testkit::parties::{Origin, Proxy, Script, answer};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

fn switch_to(protocol: &str) -> Script {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    );
    Script::default().send(head).echo()
}

/// What the client asks for, and what the origin is asked for.
const ASKED: [(&str, Option<&str>); 17] = [
    ("Upgrade: TLS/1.0", None),
    ("Upgrade: h2c", None),
    ("Upgrade: h2c-14", None),
    ("Upgrade: HTTP/2.0", None),
    ("Upgrade: \"h2c\"", None),
    ("Upgrade: foo/1", None),
    // Beyond those that were found.
    ("Upgrade: H2C, tls/1.3,http/1.1", None),
    ("Upgrade: websocket;h2c", None),
    ("Upgrade: websocket/13", None),
    ("Upgrade: (websocket)", None),
    ("Upgrade: connect-udp", None),
    ("Upgrade:", None),
    ("Upgrade: TLS/1.0\r\nUpgrade: h2c", None),
    ("Upgrade: websocket, h2c", Some("websocket")),
    ("Upgrade: h2c\r\nUpgrade: WebSocket", Some("WebSocket")),
    ("Upgrade: TLS/1.0 , ,\twebsocket ,", Some("websocket")),
    ("Upgrade: WEBSOCKET", Some("WEBSOCKET")),
];

#[test]
fn c4_only_what_is_listed_is_asked_of_an_origin() {
    let (plain, secure) = (Origin::start().robots(RULES), Origin::secure().robots(RULES));
    let proxy = Proxy::before(&[&plain, &secure], |_| {});
    for (number, (upgrade, expected)) in ASKED.into_iter().enumerate() {
        let fields = format!(
            "Connection: Upgrade, HTTP2-Settings\r\n{upgrade}\r\nHTTP2-Settings: AAMAAABk\r\n"
        );
        let path = format!("/{number}");
        let mut secured = proxy.https(&secure.authority());
        assert_eq!(proxy.exchange("GET", &plain.url(&path), &fields).status(), 200, "{upgrade}");
        assert_eq!(secured.exchange("GET", &path, &fields).status(), 200, "{upgrade}");
        for origin in [&plain, &secure] {
            let received = origin.received(&path);
            assert_eq!(received.field("upgrade"), expected, "{upgrade}");
            assert_eq!(received.field("connection").is_some(), expected.is_some(), "{upgrade}");
            assert_eq!(received.field("http2-settings"), None, "{upgrade}");
        }
    }
}

/// The attack: behind a 101 to what carries HTTP, a request that robots.txt disallows.
#[test]
fn c4_d5_no_request_is_hidden_behind_an_upgrade() {
    let hidden = "GET /private/ HTTP/1.1\r\nHost: a\r\n\r\n";
    for (number, (asked, switched)) in [
        ("TLS/1.0", "TLS/1.0"),
        ("h2c-14", "h2c-14"),
        ("HTTP/2.0", "HTTP/2.0"),
        ("\"h2c\"", "h2c"),
        ("foo/1", "foo/1"),
        ("websocket, h2c", "h2c"),
        ("websocket", "websocket, h2c"),
        ("websocket", "websocket\r\nUpgrade: TLS/1.0"),
        ("websocket", "\"websocket\""),
        ("websocket", ","),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/{number}");
        let origin = Origin::start().robots(RULES).on(&path, switch_to(switched));
        let proxy = Proxy::start();
        let fields = format!("Connection: Upgrade\r\nUpgrade: {asked}\r\n");
        let mut client = proxy.client();
        client.ask("GET", &origin.url(&path), &fields).send(hidden);
        let answer = client.read();
        answer.assert_error(502, "http_protocol_error");
        assert_eq!(
            origin.request_lines(),
            ["GET /robots.txt", &format!("GET {path}")],
            "{asked} {switched}"
        );
        assert_eq!(origin.log().requests.len(), 2, "{asked} {switched}");
        assert_eq!(proxy.records(), Vec::<Value>::new());
    }
}

/// An origin that switches unasked gets no tunnel, whatever version of HTTP the client speaks.
#[test]
fn d5_a_switch_without_a_wish_is_refused_in_every_version() {
    let secure = Origin::secure().on("/page", switch_to("websocket"));
    let proxy = Proxy::before(&[&secure], |_| {});
    proxy.https(&secure.authority()).get("/page").assert_error(502, "http_protocol_error");
    proxy.h2(&secure.authority()).get("/page").assert_error(502, "http_protocol_error");
    let plain = Origin::start().on("/page", switch_to("websocket"));
    let head = format!(
        "GET {} HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        plain.url("/page")
    );
    proxy.client().send(head).read().assert_error(502, "http_protocol_error");
}

#[test]
fn a_setting_says_what_else_may_be_upgraded_to() {
    let origin = Origin::start().on("/socket", switch_to("Foo/1"));
    let proxy = Proxy::with(|settings| {
        settings.egress.upgrades = vec!["foo/1".parse().expect("a protocol")]
    });
    let fields = "Connection: Upgrade\r\nUpgrade: websocket, FOO/1\r\n";
    let mut client = proxy.client();
    let head = client.ask("GET", &origin.url("/socket"), fields).read_head();
    assert_eq!((head.status(), head.field("upgrade")), (101, Some("Foo/1")));
    assert_eq!(origin.received("/socket").field("upgrade"), Some("FOO/1"));
    client.send("octets");
    assert_eq!(client.read_bytes(6), b"octets");

    proxy.change(|settings| settings.egress.upgrades.clear());
    let origin = Origin::start().on("/socket", Script::default().send(answer(200, "", "no")));
    assert_eq!(proxy.exchange("GET", &origin.url("/socket"), fields).status(), 200);
    assert_eq!(origin.received("/socket").field("upgrade"), None);
}
