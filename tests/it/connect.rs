//! CONNECT (RFC 9110 §9.3.6): where it may go, and what may run inside. Whatever a client says there,
//! it is judged as what it is, or goes nowhere.

use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

use rustls::AlertDescription;

use crate::testkit::parties::{Origin, Proxy, connect, request, tls};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";
const NOTHING: &str = "User-agent: *\nDisallow: /\n";

/// Nothing has come to `origin`, not even a connection.
#[track_caller]
fn assert_untouched(origin: &Origin) {
    let log = origin.log();
    assert_eq!(log.connections, 0, "{log:#?}");
}

#[test]
fn d13_a_tunnel_is_answered_without_framing() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    for version in ["1.1", "1.0"] {
        let head = connect(&origin.authority(), "").replace("HTTP/1.1", &format!("HTTP/{version}"));
        let head = proxy.client().send(head).read_head();
        assert_eq!(head.status(), 200);
        assert_eq!((head.field("content-length"), head.field("transfer-encoding")), (None, None));
    }
    assert_untouched(&origin);
}

#[test]
fn d14_plain_http_inside_is_judged() {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut client = proxy.client().tunnel(&origin.authority());
    assert_eq!(client.get("/open").text(), "this is /open\n");
    client.get("/private/a").assert_error(403, "http_request_denied");
    assert_eq!(client.get(&origin.url("/absolute")).status(), 200);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /open", "GET /absolute"]);
    let record = proxy.record();
    assert_eq!(
        (&record["url"], &record["path_seen"]),
        (&origin.url("/private/a").into(), &true.into())
    );
}

#[test]
fn what_is_neither_tls_nor_http_goes_nowhere() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    // HTTP/2 is spoken inside TLS only.
    let spoken: [&[u8]; 7] = [
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\r\n\r\n",
        b"\x80\x2e\x01\x03\x01",
        b"\x17\x03\x03",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"EHLO crawler.example\r\nMAIL FROM:<a@b>\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for bytes in spoken {
        let mut client = proxy.client().tunnel(&origin.authority());
        client.send(bytes);
        assert_eq!(client.read_rest(), b"", "{}", bytes.escape_ascii());
    }
    let records = proxy.records();
    assert_eq!(records.len(), spoken.len());
    for record in records {
        assert_eq!(
            (&record["event"], &record["reason"]),
            (&"denied".into(), &"tunnel_not_http".into())
        );
        assert_eq!((&record["method"], &record["path_seen"]), (&"CONNECT".into(), &false.into()));
        assert_eq!(record["url"], origin.authority());
    }
    assert_untouched(&origin);
}

#[test]
fn a_client_that_says_nothing_or_half_a_word_is_not_waited_for() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.limits.handshake_timeout = Duration::from_millis(100);
    });
    let authority = origin.authority();
    let hello = tls::Handshake::new(proxy.trusted(&[]), tls::host(&authority)).hello();
    for bytes in [&[][..], &hello[..1], &hello[..hello.len() - 1], &hello] {
        let mut client = proxy.client().tunnel(&authority);
        client.send(bytes);
        // After a whole one there is an answer, and then nothing.
        assert_eq!(client.read_rest().is_empty(), bytes.len() < hello.len());
    }
    assert_untouched(&origin);
}

#[test]
fn a_tunnel_in_which_nothing_was_said_yet_does_not_keep_the_proxy() {
    let origin = Origin::secure();
    let mut proxy = Proxy::before(&[&origin], |settings| {
        settings.limits.handshake_timeout = Duration::from_mins(1);
        settings.limits.drain_timeout = Duration::from_mins(1);
    });
    let mut silent = proxy.client().tunnel(&origin.authority());
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        silent.assert_closed();
        stopping.join().expect("it stops");
    });
}

#[test]
fn d14_a_connect_inside_a_tunnel_is_refused() {
    let origin = Origin::secure();
    let plain = Origin::start();
    let proxy = Proxy::before(&[&origin, &plain], |_| {});
    let inner = connect(&origin.authority(), "");
    for mut client in [proxy.https(&origin.authority()), proxy.client().tunnel(&plain.authority())]
    {
        client.send(&inner).send(request("GET", &plain.url("/smuggled"), ""));
        client.read().assert_error(400, "http_request_error");
        client.assert_closed();
    }
    let client = proxy.h2(&origin.authority());
    let asked = http::Request::builder().method("CONNECT").uri(origin.authority());
    client.answer(client.ask(asked)).assert_error(400, "http_request_error");
    assert_untouched(&origin);
    assert_untouched(&plain);
}

/// Domain fronting: one name for whoever lets the connection out, another for whoever serves it.
#[test]
fn d14_the_name_in_tls_is_that_of_connect() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let port = origin.address().port();
    for target in ["a.localhost", "localhost", "127.0.0.1"] {
        let tunnel = proxy.client().tunnel(&format!("{target}:{port}"));
        let error = tunnel.secured(proxy.trusted(&[]), "b.localhost").expect_err("refused");
        assert_eq!(
            tls::alert(&error),
            Some(AlertDescription::UnrecognisedName),
            "{target}: {error}"
        );
        let record = proxy.records().pop().expect("a record");
        assert_eq!(
            (&record["reason"], &record["sni"]),
            (&"sni_mismatch".into(), &"b.localhost".into())
        );
        assert_eq!(record["url"], format!("{target}:{port}"));
    }
    assert_untouched(&origin);

    let mut unnamed = (*proxy.trusted(&[])).clone();
    unnamed.enable_sni = false;
    let tunnel = proxy.client().tunnel(&format!("a.localhost:{port}"));
    let mut client =
        tunnel.secured(Arc::new(unnamed), "a.localhost").expect("no name is no other name");
    assert_eq!(client.get("/").status(), 200);
}

#[test]
fn c14_d14_a_request_inside_cannot_name_another_host() {
    let open = Origin::secure().robots("");
    let closed = Origin::secure().robots(NOTHING);
    let proxy = Proxy::before(&[&open, &closed], |_| {});
    let port = open.address().port();
    let agent = "User-Agent: ExampleBot/1.0\r\n";
    let here = open.authority();
    let there = closed.authority();
    for head in [
        format!("GET / HTTP/1.1\r\nHost: {there}\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n"),
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost:\r\n".to_owned(),
        "GET / HTTP/1.1\r\n".to_owned(),
        format!("GET / HTTP/1.1\r\nHost: {here}\r\nHost: {there}\r\n"),
        format!("GET https://{there}/ HTTP/1.1\r\nHost: {here}\r\n"),
        format!("GET https://{there}/ HTTP/1.1\r\nHost: {there}\r\n"),
        format!("GET http://{here}/ HTTP/1.1\r\nHost: {here}\r\n"),
        format!("GET ftp://{here}/ HTTP/1.1\r\nHost: {here}\r\n"),
        format!("GET https://user@{here}/ HTTP/1.1\r\nHost: {here}\r\n"),
    ] {
        let mut client = proxy.https(&here);
        client.send(format!("{head}{agent}\r\n")).send(request(
            "GET",
            &closed.url("/smuggled"),
            "",
        ));
        let response = client.read();
        assert_eq!(response.status(), 400, "{head}{}", response.text());
        client.assert_closed();
    }
    let client = proxy.h2(&here);
    let forged = |uri: String| http::Request::builder().uri(uri);
    for asked in [
        forged(format!("https://{there}/")),
        forged(format!("http://{here}/")),
        forged(format!("https://localhost:{port}/")),
        forged(format!("https://{here}/")).header("host", &there),
        forged(format!("https://{there}/")).header("host", &here),
    ] {
        let told = format!("{asked:?}");
        assert_eq!(client.answer(client.ask(asked)).status, 400, "{told}");
    }
    assert_eq!(client.get("/").status, 200, "the connection is still that of its host");
    assert_untouched(&closed);
    assert_eq!(open.request_lines(), ["GET /robots.txt", "GET /"]);
}

/// RFC 9110 §9.3.6, RFC 9112 §3.2.3.
#[test]
fn d13_a_target_that_is_no_host_and_port_is_refused() {
    let proxy = Proxy::start();
    for target in [
        "127.0.0.1",
        "127.0.0.1:",
        ":443",
        "127.0.0.1:0",
        "127.0.0.1:65536",
        "127.0.0.1:4294967739",
        "127.0.0.1:+443",
        "user@127.0.0.1:443",
        "user:secret@127.0.0.1:443",
        "127.1:443",
        "2130706433:443",
        "0x7f.0.0.1:443",
        "0177.0.0.1:443",
        "[::1:443",
        "[::1%25lo]:443",
        "[127.0.0.1]:443",
        "http://127.0.0.1:443/",
        "127.0.0.1:443/path",
        "/",
        "*",
        "a..b:443",
        "%31.example:443",
    ] {
        let mut client = proxy.client();
        client.send(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"));
        let response = client.read();
        assert_eq!(response.status(), 400, "{target}: {}", response.text());
        client.assert_closed();
    }
}

#[test]
fn d13_a_port_that_is_not_listed_is_refused_and_recorded() {
    let origin = Origin::secure();
    let proxy = Proxy::start();
    for port in [22, 25, 8443, origin.address().port()] {
        let mut client = proxy.client();
        let response = client.send(connect(&format!("127.0.0.1:{port}"), "")).read();
        response.assert_error(403, "http_request_denied");
        assert!(response.text().contains("egress.connect_ports"), "{}", response.text());
        client.assert_closed();
        let record = proxy.records().pop().expect("a record");
        assert_eq!(response.field("courtesy-record"), record["id"].as_str());
        assert_eq!(
            (&record["event"], &record["reason"]),
            (&"denied".into(), &"origin_refused".into())
        );
        assert_eq!(record["url"], format!("127.0.0.1:{port}"));
    }
    assert_eq!(proxy.records().len(), 4, "one for each");
    assert_untouched(&origin);
}

#[test]
fn algorithm_5_an_address_that_may_not_be_reached_is_refused_and_recorded() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.egress.allow.clear();
        settings.egress.deny = vec!["8.8.8.0/24".parse().expect("a block")];
    });
    let port = origin.address().port();
    let targets = [
        origin.authority(),
        format!("localhost:{port}"),
        "169.254.169.254:80".into(),
        "8.8.8.8:443".into(),
    ];
    for target in &targets {
        let mut client = proxy.client();
        let response = client.send(connect(target, "User-Agent: ExampleBot/1.0\r\n")).read();
        response.assert_error(403, "destination_ip_prohibited");
        client.assert_closed();
    }
    let records = proxy.records();
    assert_eq!(records.len(), targets.len());
    for (record, target) in records.iter().zip(&targets) {
        assert_eq!(
            (&record["event"], &record["reason"]),
            (&"denied".into(), &"origin_refused".into())
        );
        assert_eq!(
            (&record["url"], &record["path_seen"]),
            (&target.as_str().into(), &false.into())
        );
        assert_eq!(
            (&record["method"], &record["agent"]),
            (&"CONNECT".into(), &"ExampleBot".into())
        );
    }
    assert_untouched(&origin);
}

/// What was sent in hope of a tunnel is not a request to the proxy.
#[test]
fn b21_what_follows_a_refused_connect_is_never_run() {
    let origin = Origin::start();
    let proxy = Proxy::start();
    let hope = request("GET", &origin.url("/hoped"), "");
    for target in ["127.0.0.1:25", "10.0.0.1:443", "127.1:443", "127.0.0.1"] {
        let mut client = proxy.client();
        client.send(connect(target, "") + &hope);
        assert!(matches!(client.read().status(), 400 | 403), "{target}");
        let _ = client.try_send(&hope);
        client.assert_closed();
    }
    assert_untouched(&origin);
}

/// The answer survives what was sent after the request and is never read (RFC 9112 §9.6).
#[test]
fn a_refused_connect_is_answered_whatever_follows_it() {
    let origin = Origin::start();
    let proxy = Proxy::before(&[&origin], |_| {});
    let hope = vec![b'x'; 200_000];
    let inside = || proxy.client().tunnel(&origin.authority());
    for mut client in [proxy.client(), inside()] {
        client.send(connect("127.0.0.1:25", ""));
        let _ = client.try_send(&hope);
        let response = client.read();
        assert!(matches!(response.status(), 400 | 403), "{}", response.text());
        client.assert_closed();
    }
    assert_untouched(&origin);
}

#[test]
fn what_follows_a_granted_connect_may_come_with_it() {
    let secure = Origin::secure();
    let plain = Origin::start();
    let proxy = Proxy::before(&[&secure, &plain], |_| {});
    for _ in 0..20 {
        let tunnel =
            proxy.client().tunnel_in_hope(&secure.authority(), proxy.trusted(&["http/1.1"]));
        assert_eq!(tunnel.expect("a handshake").get("/").status(), 200);
    }
    let mut client = proxy.client();
    let inside = format!("GET /page HTTP/1.1\r\nHost: {}\r\n\r\n", plain.authority());
    client.send(connect(&plain.authority(), "") + &inside);
    assert_eq!(client.read_head().status(), 200);
    assert_eq!(client.read().text(), "this is /page\n");
}

#[test]
fn a_client_that_does_not_trust_the_ca_harms_nobody() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    for _ in 0..3 {
        let tunnel = proxy.client().tunnel(&authority);
        let error = tunnel.secured(tls::trusting(tls::origins_ca(), &[]), tls::host(&authority));
        assert!(error.expect_err("not trusted").to_string().contains("UnknownIssuer"));
        assert_eq!(proxy.https(&authority).get("/").status(), 200);
    }
    assert_eq!(origin.count("/"), 3);
    assert_eq!(proxy.records(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_handshake_of_garbage_ends_in_an_alert_at_most() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let hello = tls::Handshake::new(proxy.trusted(&[]), tls::host(&authority)).hello();
    let mut bent = hello.clone();
    bent[5] = 0x02;
    let twice = [hello.as_slice(), &hello].concat();
    let garbage = [b"\x16\x03\x01".as_slice(), &[0xff; 600]].concat();
    let empty = b"\x16\x03\x01\0\0".to_vec();
    for bytes in [bent, twice, garbage, empty, b"\x16GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut client = proxy.client().tunnel(&authority);
        client.send(&bytes);
        client.finish_sending();
        let said = client.read_rest();
        let told = said.escape_ascii();
        assert!(said.is_empty() || matches!(said[0], 0x14..=0x17), "{told}");
    }
    // One that stops in the middle is gone.
    let client = proxy.client().tunnel(&authority);
    let stream = client.into_tcp();
    stream.shutdown(Shutdown::Both).expect("an open connection");
    assert_untouched(&origin);
    assert_eq!(proxy.https(&authority).get("/").status(), 200, "the next client is served");
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let mut handshake = tls::Handshake::new(proxy.trusted(&["http/1.1"]), tls::host(&authority));
    let hello = handshake.hello();
    let mut client = proxy.client().tunnel(&authority);
    for byte in hello {
        client.send([byte]);
    }
    assert_eq!(client.resumed(handshake).expect("a handshake").get("/").status(), 200);
}

#[test]
fn every_version_of_tls_and_only_known_protocols_are_spoken() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config =
            tls::trusting_at(&[version], &proxy.leaves.authority().bundle(), &["http/1.1"]);
        let tunnel = proxy.client().tunnel(&authority);
        let mut client = tunnel.secured(config, tls::host(&authority)).expect("a handshake");
        assert_eq!(client.get("/").status(), 200, "{version:?}");
    }
    let tunnel = proxy.client().tunnel(&authority);
    let error = tunnel.secured(proxy.trusted(&["h3"]), tls::host(&authority)).expect_err("refused");
    assert_eq!(tls::alert(&error), Some(AlertDescription::NoApplicationProtocol), "{error}");
    let tunnel = proxy.client().tunnel(&authority);
    let mut silent =
        tunnel.secured(proxy.trusted(&[]), tls::host(&authority)).expect("a handshake");
    assert_eq!(silent.get("/").status(), 200, "without ALPN it is HTTP/1.1");
}
