//! Hostile clients of a transparent listener: by no bytes does a connection lead where a request to
//! the proxy would not, and by none to the listener itself.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::json;

use crate::admin::metrics;
use crate::testkit::parties::{Client, H2, Origin, Proxy, tls};
use crate::transparent::before;

/// The first flight of a client that names `host` in TLS, or nothing if that is an address.
fn hello(proxy: &Proxy, host: &str) -> tls::Handshake {
    tls::Handshake::new(proxy.trusted(&["http/1.1"]), host)
}

/// A handshake message in records of `size` bytes (RFC 8446 §5.1).
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let record = |piece: &[u8]| {
        [&hello[..3], &u16::try_from(piece.len()).unwrap().to_be_bytes(), piece].concat()
    };
    hello[5..].chunks(size).flat_map(record).collect()
}

#[test]
fn no_spelling_of_a_refused_address_is_reached_by_host() {
    let origin = Origin::start();
    let (_proxy, network) = before(&origin, |settings| settings.egress.allow.clear());
    let port = origin.address().port();
    for (host, status) in [
        ("127.0.0.1", 403),
        ("localhost", 403),
        ("LOCALHOST.", 403),
        ("a.localhost", 403),
        ("[::1]", 403),
        ("[::ffff:127.0.0.1]", 403),
        ("[::ffff:7f00:1]", 403),
        ("[64:ff9b::7f00:1]", 403),
        // This machine, at the port of the listener.
        ("0.0.0.0", 502),
        ("[::]", 502),
        ("169.254.169.254", 403),
        ("[fd00:ec2::254]", 403),
        ("192.0.2.1", 403),
        ("127.1", 400),
        ("2130706433", 400),
        ("0x7f000001", 400),
        ("0177.0.0.1", 400),
        ("user@127.0.0.1", 400),
        ("127.0.0.1, example.com", 400),
        ("example.com\t", 400),
    ] {
        let head = "User-Agent: ExampleBot/1.0\r\n";
        let by_host = format!("GET / HTTP/1.1\r\nHost: {host}:{port}\r\n{head}\r\n");
        let by_target =
            format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n{head}\r\n");
        for request in [by_host, by_target] {
            let response = network.connect().send(&request).read();
            assert_eq!(response.status(), status, "{request}{}", response.text());
        }
    }
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn a_host_that_is_the_listener_itself_is_a_loop() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |_| {});
    let port = origin.address().port();
    for host in ["127.0.77.1", "[::ffff:127.0.77.1]", "[::ffff:7f00:4d01]"] {
        let request = network.get(&format!("{host}:{port}"), "/");
        network.connect().send(request).read().assert_error(502, "proxy_loop_detected");
    }
    // The destination of a ClientHello without a name, or with an address for one (RFC 6066 §3).
    let literal = hello(&proxy, "localhost").hello();
    let at = memchr::memmem::find(&literal, b"localhost").expect("its name");
    let literal = [&literal[..at], b"127.0.0.1", &literal[at + 9..]].concat();
    for first in [hello(&proxy, "127.0.0.1").hello(), literal] {
        let mut client = network.connect();
        client.send(first);
        assert_eq!(client.read_rest(), [0x15, 3, 3, 0, 2, 2, 0x31], "access_denied");
    }
    assert_eq!(origin.log().connections, 0);
}

#[test]
fn a_request_that_can_be_read_in_two_ways_ends_the_connection() {
    let origin = Origin::start();
    let (_proxy, network) = before(&origin, |_| {});
    let here = origin.authority();
    let agent = "User-Agent: ExampleBot/1.0\r\n";
    for head in [
        format!("GET / HTTP/1.1\r\nHost: {here}\r\nHost: {here}\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {here}\r\nHost: example.com\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {here}\r\nHost : example.com\r\n"),
        format!("GET / HTTP/1.1\r\nHost: example.com\r\n Host: {here}\r\n"),
        format!("GET http://{here}/ HTTP/1.1\r\nHost: example.com\r\n"),
        format!("GET http://example.com/ HTTP/1.1\r\nHost: {here}\r\n"),
        format!("GET //{here}/ HTTP/1.1\r\n"),
        format!("POST / HTTP/1.1\r\nHost: {here}\r\nContent-Length: 4\r\nContent-Length: 5\r\n"),
        format!(
            "POST / HTTP/1.1\r\nHost: {here}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n"
        ),
        format!("POST / HTTP/1.1\r\nHost: {here}\r\nTransfer-Encoding: xchunked\r\n"),
        format!("CONNECT {here} HTTP/1.1\r\nHost: {here}\r\n"),
        format!("CONNECT / HTTP/1.1\r\nHost: {here}\r\n"),
    ] {
        let mut client = network.connect();
        client.send(format!("{head}{agent}\r\n{}", network.get(&here, "/smuggled")));
        let response = client.read();
        assert_eq!(response.status(), 400, "{head}{}", response.text());
        client.assert_closed();
    }
    assert!(!origin.request_lines().iter().any(|line| line.contains("smuggled")));
}

#[test]
fn bytes_of_other_protocols_are_closed_and_recorded() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |_| {});
    let foreign: [&[u8]; 7] = [
        b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50",
        b"\x04\x01\0\x50\x7f\0\0\x01\0",
        b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\x12\x34\0\x50",
        b"PROXY TCP4 127.0.0.1 127.0.0.1 4660 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x17\x03\x03\0\x05hello",
        b"\0",
    ];
    for (number, bytes) in foreign.iter().enumerate() {
        let mut client = network.connect();
        client.send(bytes);
        assert_eq!(client.read_rest(), b"", "{}", bytes.escape_ascii());
        let records = proxy.records();
        let shown = bytes.escape_ascii();
        assert_eq!(records.len(), number + 1, "{shown}");
        assert_eq!(records[number]["reason"], "tunnel_not_http", "{shown}");
    }
    assert_eq!(origin.log().connections, 0);
}

/// A client that may not be served, or not now, cannot fill the log of denials.
#[test]
fn a_rejected_client_of_another_protocol_leaves_no_record() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |settings| settings.clients.max_per_client = 1);
    let mut served = network.connect();
    served.send(network.get(&origin.authority(), "/page"));
    assert_eq!(served.read().status(), 200);
    for bytes in [&b"SSH-2.0-x\r\n"[..], b"\x05\x01\0", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut client = network.connect();
        client.send(bytes);
        assert_eq!(client.read_rest(), b"", "{}", bytes.escape_ascii());
    }
    assert_eq!(proxy.records(), [serde_json::Value::Null; 0]);
}

#[test]
fn streams_of_http2_in_redirected_tls_cannot_name_another_host() {
    let origin = Origin::secure();
    let (proxy, network) = before(&origin, |_| {});
    let port = origin.address().port();
    let here = format!("localhost:{port}");
    let stream = network.connect().into_tcp();
    let client = H2::start(stream, proxy.trusted(&["h2"]), &here);
    assert_eq!(client.get("/page").status, 200);
    for (uri, host) in [
        (format!("https://127.0.0.1:{port}/"), None),
        (format!("https://a.localhost:{port}/"), None),
        (format!("http://{here}/"), None),
        ("https://localhost:1/".to_owned(), None),
        (format!("https://{here}/"), Some("a.localhost")),
    ] {
        let mut request = http::Request::builder().uri(&uri);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        // RFC 9110 §15.5.20: a proxy generates no 421.
        assert_eq!(client.answer(client.ask(request)).status, 400, "{uri} {host:?}");
    }
    assert_eq!(client.get("/more").status, 200, "the connection is still that of its host");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page", "GET /more"]);
}

#[test]
fn a_hello_in_single_bytes_is_read_and_none_without_end_or_name() {
    let origin = Origin::secure();
    let (proxy, network) = before(&origin, |_| {});
    let authority = format!("localhost:{}", origin.address().port());
    let mut handshake = hello(&proxy, "localhost");
    let pieces = in_records(&handshake.hello(), 1);
    let mut client = network.connect();
    for byte in pieces {
        client.send([byte]);
    }
    let mut client = client.resumed(handshake).expect("TLS");
    let page = client.send(network.get(&authority, "/page")).read();
    assert_eq!(page.text(), "this is /page\n");

    let failed = || metrics(&proxy)["courtesy_tls_client_failures_total{alert=\"none\"}"];
    assert_eq!(failed(), 0.0);
    let huge = [&b"\x16\x03\x01\0\0\x01\0\xff\xff\x03\x03"[..], &[0; 0xffff]].concat();
    let mut invalid = hello(&proxy, "a.localhost").hello();
    let at = memchr::memmem::find(&invalid, b"a.localhost").expect("its name");
    invalid[at + 1] = b'!';
    for first in [in_records(&huge, 1), in_records(&huge, 0x4000), invalid] {
        let mut client = network.connect();
        // It may be closed before the last byte.
        let _ = client.try_send(first);
        assert_eq!(client.read_rest(), b"");
    }
    assert_eq!(failed(), 3.0);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page"]);
}

/// The listener has an IPv4-mapped address, as a connection by IPv4 to one of IPv6 does
/// (RFC 4291 §2.5.5.2).
#[test]
fn a_mapped_destination_is_the_ipv4_address() {
    let origin = Origin::start();
    let port = origin.address().port();
    let mapped = SocketAddr::from((Ipv4Addr::new(127, 0, 77, 1).to_ipv6_mapped(), port));
    let proxy = Proxy::transparent(mapped, &[&origin], |_| {});
    let send = |request: &str| {
        let mut client = Client::connect((Ipv4Addr::new(127, 0, 77, 1), port).into());
        client.send(request);
        client
    };
    let mut loops = send("GET / HTTP/1.0\r\n\r\n");
    loops.read().assert_error(502, "proxy_loop_detected");
    send("SSH-2.0-x\r\n").assert_closed();
    let record = proxy.record();
    assert_eq!(record["origin"], json!(format!("https://127.0.77.1:{port}")));
    assert_eq!(record["client"]["address"], "127.0.0.1");
    let request = format!("GET /page HTTP/1.1\r\nHost: {}\r\n\r\n", origin.authority());
    assert_eq!(send(&request).read().status(), 200);
}
