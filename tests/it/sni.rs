//! The name in a client's TLS against that of its CONNECT, where TLS goes through to the origin: in
//! the mode `classify`, and for hosts in `https.tunnel`. One server has many hosts; the one that
//! robots.txt was asked of is the one that is served.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use courtesy::config::{HttpsMode, MixedHosts, Settings};
use courtesy::types::origin::HostPattern;
use serde_json::Value;

use crate::testkit::parties::{Client, Origin, Proxy, answer, connect, ok, tls};

const AGENT: &str = "User-Agent: ExampleBot/1.0\r\n";
/// A fatal alert `unrecognized_name`, and nothing else.
const REFUSED: &[u8] = &[0x15, 3, 3, 0, 2, 2, 112];

fn classify(settings: &mut Settings) {
    settings.https.mode = HttpsMode::Classify;
}

fn listed(settings: &mut Settings) {
    settings.https.tunnel =
        ["127.0.0.1", "*.localhost"].map(|host| HostPattern::new(host).unwrap()).to_vec();
}

/// The first flight of a client that asks for `name`; for an address, it names none.
fn hello(name: &str) -> Vec<u8> {
    tls::Handshake::new(tls::trusting(tls::origins_ca(), &["http/1.1"]), name).hello()
}

/// The same handshake message in records of `size` bytes.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let record = |piece: &[u8]| {
        [&hello[..3], &u16::try_from(piece.len()).unwrap().to_be_bytes(), piece].concat()
    };
    hello[5..].chunks(size).flat_map(record).collect()
}

/// The same with one more extension (RFC 8446 §4.1.2).
fn with_extension(hello: &[u8], kind: u16, content: &[u8]) -> Vec<u8> {
    let mut message = hello[9..].to_vec();
    let mut at = 2 + 32;
    at += 1 + usize::from(message[at]);
    at += 2 + usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    at += 1 + usize::from(message[at]);
    let length = u16::try_from(content.len()).unwrap();
    message
        .splice(at + 2..at + 2, [&kind.to_be_bytes()[..], &length.to_be_bytes(), content].concat());
    let all = u16::from_be_bytes([message[at], message[at + 1]]) + 4 + length;
    message[at..at + 2].copy_from_slice(&all.to_be_bytes());
    let size = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0x01], &size[1..], &message].concat();
    [&hello[..3], &u16::try_from(message.len()).unwrap().to_be_bytes(), &message].concat()
}

/// An `encrypted_client_hello` of which nobody can tell what is inside (RFC 9849 §5).
fn encrypted() -> Vec<u8> {
    [&[0, 0, 1, 0, 1, 7, 0, 32][..], &[0xaa; 32], &[0, 48], &[0xbb; 48]].concat()
}

/// Sends these pieces into a tunnel to `authority`, and returns all that comes back.
fn answered(proxy: &Proxy, authority: &str, pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut client = proxy.client();
    client.send(connect(authority, AGENT));
    assert_eq!(client.read_head().status(), 200);
    for piece in pieces {
        // It may be refused before the last one.
        let _ = client.try_send(piece);
    }
    client.read_rest()
}

#[track_caller]
fn assert_refused(record: &Value, authority: &str, sni: Option<&str>) {
    let fields =
        ["event", "reason", "method", "url", "agent"].map(|name| record[name].as_str().unwrap());
    assert_eq!(fields, ["denied", "sni_mismatch", "CONNECT", authority, "ExampleBot"]);
    assert_eq!((record["sni"].as_str(), &record["path_seen"]), (sni, &Value::Bool(false)));
}

/// Only the host that was judged is served: whatever else the client asks for in TLS, and however
/// it says it.
#[test]
fn d14_a_tunnel_carries_no_tls_for_another_host_than_that_of_connect() {
    let origin = Origin::secure().robots("").on("b/robots.txt", ok("User-agent: *\nDisallow: /\n"));
    let port = origin.address().port();
    let [a, ip] = ["a.localhost", "127.0.0.1"].map(|host| format!("{host}:{port}"));
    let (other, none) = (hello("b.localhost"), hello("127.0.0.1"));
    let bytes = other.iter().map(|byte| vec![*byte]).collect();
    let outer = with_extension(&other, 0xfe0d, &encrypted());
    let old = [&[0x80, 46, 1, 3, 1, 0, 21, 0, 0, 0, 16][..], &[7; 37]].concat();
    let attacks = [
        ("another name", &a, vec![other.clone()], Some("b.localhost")),
        ("no name", &a, vec![none], None),
        ("an encrypted name behind another", &a, vec![outer], Some("b.localhost")),
        ("byte by byte", &a, bytes, Some("b.localhost")),
        ("in many records", &a, vec![in_records(&other, 7)], Some("b.localhost")),
        ("a name for an address", &ip, vec![hello("localhost")], Some("localhost")),
        ("in the form of SSL 2.0", &a, vec![old[..1].to_vec(), old[1..].to_vec()], None),
        ("a name below", &a, vec![hello("x.a.localhost")], Some("x.a.localhost")),
    ];
    for setting in [classify, listed] {
        let proxy = Proxy::before(&[&origin], setting);
        for (number, (what, authority, pieces, sni)) in attacks.iter().enumerate() {
            assert_eq!(answered(&proxy, authority, pieces), REFUSED, "{what}");
            let records = proxy.records();
            assert_eq!(records.len(), number + 1, "{what}");
            assert_refused(&records[number], authority, *sni);
        }
        let metrics = proxy.admin("/metrics").text().to_owned();
        let counted = format!(
            "courtesy_decisions_total{{decision=\"deny\",basis=\"sni_mismatch\"}} {}\n",
            attacks.len()
        );
        assert!(metrics.contains(&counted), "{metrics}");
    }
    assert!(origin.request_lines().iter().all(|line| line.ends_with("/robots.txt")));
}

/// What cannot be read as a ClientHello says nothing of the host that it is for.
#[test]
fn d14_a_tunnel_carries_no_tls_that_cannot_be_read() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], classify);
    let authority = format!("a.localhost:{}", origin.address().port());
    let good = hello("a.localhost");
    let name = good.windows(11).position(|bytes| bytes == b"a.localhost").unwrap();
    let mut invalid = good.clone();
    invalid[name] = 0;
    let mut endless = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff];
    endless.resize(5 + 0x4000, 0);
    let twice = with_extension(&good, 0, &good[name - 5..name + 11]);
    for (number, (what, bytes)) in [
        ("garbage", [b"\x16\x03\x01".as_slice(), &[0xff; 600]].concat()),
        ("a name that is none", invalid),
        ("two lists of names", twice),
        ("without end", endless),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(answered(&proxy, &authority, &[bytes]), REFUSED, "{what}");
        assert_refused(&proxy.records()[number], &authority, None);
    }
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

/// A client that does not finish its ClientHello is not waited for, and nothing of it is sent.
#[test]
fn d14_a_client_hello_that_stops_halfway_goes_nowhere() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |settings| {
        classify(settings);
        settings.limits.handshake_timeout = Duration::from_millis(200);
    });
    let authority = format!("a.localhost:{}", origin.address().port());
    let other = hello("b.localhost");
    let (mut whole, mut silent) =
        (end_to_end(&proxy, &authority, "a.localhost"), proxy.client().tunnel(&authority));
    for part in [&other[..1], &other[..60], &[0x80]] {
        assert_eq!(answered(&proxy, &authority, &[part.to_vec()]), b"", "{}", part.escape_ascii());
    }
    assert_eq!(proxy.records(), Vec::<Value>::new(), "nothing was asked for");
    // Tunnels from before, whose ClientHello is whole or not begun, are open still.
    assert_eq!(whole.get("/").status(), 200);
    silent.send(&other);
    assert_eq!(silent.read_rest(), REFUSED);
}

#[track_caller]
fn end_to_end(proxy: &Proxy, authority: &str, name: &str) -> Client {
    let tunnel = proxy.client().tunnel(authority);
    tunnel
        .secured(tls::trusting(tls::origins_ca(), &["http/1.1"]), name)
        .expect("the origin's certificate")
}

/// The host that was judged, in every spelling and in every way to say it.
#[test]
fn a_tunnel_carries_tls_for_the_host_of_its_connect() {
    let origin = Origin::secure();
    let port = origin.address().port();
    for setting in [classify, listed] {
        let proxy = Proxy::before(&[&origin], setting);
        for (host, name) in [
            ("a.localhost", "a.localhost"),
            ("A.LocalHost", "a.localhost"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            let mut client = end_to_end(&proxy, &format!("{host}:{port}"), name);
            assert_eq!(client.get("/page").status(), 200, "{host}");
        }
        let authority = format!("a.localhost:{port}");
        for size in [1, 100] {
            let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
            let mut handshake = tls::Handshake::new(config, "a.localhost");
            let hello = in_records(&handshake.hello(), size);
            let mut client = proxy.client().tunnel(&authority);
            hello.chunks(50).for_each(|piece| _ = client.send(piece));
            let mut client = client.resumed(handshake).expect("a handshake");
            assert_eq!(client.get("/page").status(), 200, "in records of {size}");
        }
        let config = tls::trusting(tls::origins_ca(), &["http/1.1"]);
        let mut client =
            proxy.client().tunnel_in_hope(&authority, Arc::clone(&config)).expect("a handshake");
        assert_eq!(client.get("/page").status(), 200, "in hope");
        // Browsers send an encrypted name with each ClientHello, mostly with nothing in it.
        let decoy = with_extension(&hello("a.localhost"), 0xfe0d, &encrypted());
        let mut client = proxy.client().tunnel(&authority);
        assert_eq!(client.send(decoy).read_bytes(1), [0x16], "the origin's ServerHello");
        assert_eq!(proxy.records(), Vec::<Value>::new());
    }
}

/// What is not TLS is carried as it comes, whoever begins.
#[test]
fn a_tunnel_carries_what_is_not_tls_whoever_begins() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let robots = Origin::secure();
    let server = std::thread::spawn(move || {
        // The first connection is for its robots.txt, which it does not have: it is tunnelled all
        // the same.
        drop(listener.accept());
        let (mut stream, _) = listener.accept().expect("a tunnel");
        stream.write_all(b"220 mail.example\r\n").expect("an open tunnel");
        let mut said = [0; 6];
        stream.read_exact(&mut said).expect("six bytes");
        stream.write_all(&said).expect("an open tunnel");
    });
    let proxy = Proxy::before(&[&robots], |settings| {
        classify(settings);
        settings.https.mixed = MixedHosts::Tunnel;
        settings.robots.mode = courtesy::config::Mode::Observe;
        settings.robots.fetch_timeout = Duration::from_millis(200);
        settings.egress.connect_ports.push(port);
    });
    let mut client = proxy.client().tunnel(&format!("a.localhost:{port}"));
    assert_eq!(client.read_bytes(18), b"220 mail.example\r\n", "the server begins");
    client.send(b"HELO\r\n");
    assert_eq!(client.read_rest(), b"HELO\r\n");
    server.join().expect("no panic");

    let plain = Origin::start()
        .on("/page", crate::testkit::parties::Script::default().send(answer(200, "", "plain")));
    proxy.change(|settings| settings.egress.connect_ports.push(plain.address().port()));
    let mut client = proxy.client().tunnel(&plain.authority());
    assert_eq!(client.get("/page").text(), "plain");
}
