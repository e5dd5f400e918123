//! SOCKS5 on the proxy's port: the stream after the reply is what is inside a CONNECT.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use courtesy::clients::Change;
use courtesy::config::{HttpsMode, Settings};

use crate::clients::{PASSWORD, user};
use crate::testkit::parties::{Client, Origin, Proxy, refusing, tls};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// A request for a host by its name or literal.
fn by_name(host: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(host.len()).expect("a short name");
    [&[5, 1, 0, 3, length], host.as_bytes(), &port.to_be_bytes()].concat()
}

/// A request for an address.
fn by_address(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => [&[5, 1, 0, 1][..], &v4.ip().to_bits().to_be_bytes(), &port].concat(),
        SocketAddr::V6(v6) => [&[5, 1, 0, 4][..], &v6.ip().to_bits().to_be_bytes(), &port].concat(),
    }
}

/// The code of the reply to `request`.
#[track_caller]
fn code(client: &mut Client, request: &[u8]) -> u8 {
    client.send(b"\x05\x01\0");
    assert_eq!(client.read_bytes(2), b"\x05\0");
    client.send(request);
    let reply = client.read_bytes(10);
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    reply[1]
}

/// A client whose request for `origin` has succeeded.
#[track_caller]
fn opened(proxy: &Proxy, origin: &Origin) -> Client {
    let mut client = proxy.client();
    assert_eq!(code(&mut client, &by_address(origin.address())), 0);
    client.within(&origin.authority())
}

fn with_user(settings: &mut Settings) {
    let file = settings.state_dir.join("users.toml");
    let mut change = Change::begin(&file).unwrap();
    change.users.put(user("ada"));
    change.save().unwrap();
    settings.clients.users_file = Some(file);
}

fn password(name: &str, password: &str) -> Vec<u8> {
    let length = |text: &str| [u8::try_from(text.len()).expect("a short text")];
    [&[1], &length(name)[..], name.as_bytes(), &length(password), password.as_bytes()].concat()
}

#[test]
fn plain_http_inside_is_judged() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = opened(&proxy, &origin);
    assert_eq!(client.get("/open").text(), "this is /open\n");
    client.get("/private/a").assert_error(403, "http_request_denied");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open"]);
    let record = proxy.record();
    assert_eq!(record["url"], origin.url("/private/a"));
}

#[test]
fn https_inside_is_intercepted() {
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = opened(&proxy, &origin);
    let trusted = proxy.trusted(&["http/1.1"]);
    let mut client = client.secured(trusted, tls::host(&origin.authority())).expect("a handshake");
    assert_eq!(client.get("/open").status(), 200);
    client.get("/private/a").assert_error(403, "http_request_denied");
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open"]);
}

#[test]
fn a_host_that_is_classified_is_tunnelled_or_refused() {
    let open = Origin::secure();
    let closed = Origin::secure().robots("User-agent: *\nDisallow: /\n");
    let proxy = Proxy::before(&[&open, &closed], |settings| {
        settings.https.mode = HttpsMode::Classify;
    });
    let client = opened(&proxy, &open);
    let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
    let mut client = client.secured(config, tls::host(&open.authority())).expect("the origin's");
    assert_eq!(client.get("/page").text(), "this is /page\n");
    let mut client = proxy.client();
    assert_eq!(code(&mut client, &by_address(closed.address())), 2);
    client.assert_closed();
    assert_eq!(proxy.record()["reason"], "disallow_rule");
}

#[test]
fn a_host_is_a_name_or_an_address_of_either_version() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let port = origin.address().port();
    for host in ["localhost", "a.localhost", "127.0.0.1"] {
        let mut client = proxy.client();
        assert_eq!(code(&mut client, &by_name(host, port)), 0, "{host}");
        let mut client = client.within(&format!("{host}:{port}"));
        assert_eq!(client.get("/open").status(), 200, "{host}");
    }
    // No one listens there, but the address is permitted, and the port is one of CONNECT.
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    assert_eq!(code(&mut proxy.client(), &by_address(v6)), 0);
}

#[test]
fn a_refusal_has_the_code_that_fits_and_the_record_of_a_connect() {
    let (_held, dead) = refusing();
    let proxy = Proxy::with(|settings| {
        settings.egress.connect_ports.push(dead.port());
        settings.egress.deny = vec!["127.0.0.9/32".parse().unwrap()];
        settings.https.mode = HttpsMode::Classify;
    });
    for (request, expected) in [
        (by_name("127.0.0.1", 25), 2),
        (by_name("127.0.0.9", 443), 2),
        (by_name("user@127.0.0.1", 443), 1),
        (by_name("", 443), 1),
        (by_name("127.1", 443), 1),
        (by_name("a\r\nb: c", 443), 1),
        ([&b"\x05\x02\0\x01"[..], &[127, 0, 0, 1, 1, 187]].concat(), 7),
        ([&b"\x05\x03\0\x01"[..], &[127, 0, 0, 1, 1, 187]].concat(), 7),
        (b"\x05\x01\0\x02".to_vec(), 8),
    ] {
        let mut client = proxy.client();
        let shown = request.escape_ascii().to_string();
        assert_eq!(code(&mut client, &request), expected, "{shown}");
        client.assert_closed();
    }
    let records = proxy.records();
    let seen: Vec<_> = records.iter().map(|it| (&it["method"], &it["event"])).collect();
    let denied = (&"CONNECT".into(), &"denied".into());
    assert!(!seen.is_empty() && seen.iter().all(|it| *it == denied), "{records:#?}");
}

#[test]
fn users_authenticate_by_name_and_password() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], with_user);
    let mut client = proxy.client();
    client.send(b"\x05\x01\0");
    assert_eq!(client.read_bytes(2), b"\x05\xff", "without a name");
    client.assert_closed();
    for (name, secret) in [("ada", "wrong"), ("eve", PASSWORD), ("ada:open", " sesame")] {
        let mut client = proxy.client();
        client.send(b"\x05\x02\0\x02");
        assert_eq!(client.read_bytes(2), b"\x05\x02");
        client.send(password(name, secret));
        assert_eq!(client.read_bytes(2), b"\x01\x01", "{name}");
        client.assert_closed();
    }
    // All in one go: what follows is read when it is due.
    let mut client = proxy.client();
    let sent = [&b"\x05\x02\0\x02"[..], &password("ada", PASSWORD), &by_address(origin.address())];
    client.send(sent.concat());
    assert_eq!(client.read_bytes(5), b"\x05\x02\x01\0\x05");
    assert_eq!(client.read_bytes(9), [0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let mut client = client.within(&origin.authority());
    client.get("/private/a").assert_error(403, "http_request_denied");
    assert_eq!(proxy.record()["client"]["name"], "ada");
}

#[test]
fn a_negotiation_is_not_waited_for() {
    let proxy = Proxy::with(|settings| {
        settings.limits.handshake_timeout = Duration::from_millis(100);
    });
    for (sent, answer) in [
        (&b"\x05"[..], &b""[..]),
        (b"\x05\x02\0", b""),
        (b"\x05\x01\0", b"\x05\0"),
        (b"\x05\x01\0\x05\x01\0\x03\xff", b"\x05\0"),
        (b"\x05\x01\0\x04\x01\0\x01", b"\x05\0"),
        (b"\x05\x01\x01", b"\x05\xff"),
    ] {
        let mut client = proxy.client();
        client.send(sent);
        assert_eq!(client.read_rest(), answer, "{}", sent.escape_ascii());
    }
}

#[test]
fn a_client_that_is_rejected_gets_no_method_and_no_stream() {
    let proxy = Proxy::with(|settings| settings.clients.max_per_client = 1);
    let mut first = proxy.client();
    assert_eq!(code(&mut first, b"\x05\x02\0\x01\x7f\0\0\x01\x01\xbb"), 7, "it is served");
    let mut client = proxy.client();
    client.send(b"\x05\x01\0");
    assert_eq!(client.read_rest(), b"\x05\xff");
    let mut client = proxy.client();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = client.read_rest();
    assert!(answer.starts_with(b"HTTP/1.1 4"), "{}", answer.escape_ascii());
    drop(first);
}

/// Also where the operator permits loopback and the port: the proxy is no way to itself.
#[test]
fn no_stream_leads_to_a_listener_of_the_proxy() {
    let listening = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).unwrap();
    let proxy =
        Proxy::at(listening, |settings| settings.egress.connect_ports.push(listening.port()));
    assert_eq!(code(&mut proxy.client(), &by_address(listening)), 1, "a loop");
    let admin = proxy.admin_address();
    assert_eq!(code(&mut proxy.client(), &by_address(admin)), 2, "a port of no CONNECT");
}
