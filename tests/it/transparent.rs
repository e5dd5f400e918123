//! Connections that a client has made to an origin, and that the network has led to the proxy: the
//! origin is known by `Host` or SNI. The client here connects to 127.0.77.1 at the port of an origin
//! on 127.0.0.1: it is the name that leads to the origin, not the address. No client of another test has a
//! port there.

use courtesy::config::{HttpsMode, MixedHosts, Settings};
use serde_json::json;

use crate::testkit::parties::{Client, Origin, Proxy, tls};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";

/// A proxy to which connections to 127.0.77.1 are led, at the port of `origin`.
pub fn before(origin: &Origin, edit: impl FnOnce(&mut Settings)) -> (Proxy, Transparent) {
    let address = (std::net::Ipv4Addr::new(127, 0, 77, 1), origin.address().port()).into();
    (Proxy::transparent(address, &[origin], edit), Transparent { address })
}

pub struct Transparent {
    pub address: std::net::SocketAddr,
}

impl Transparent {
    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn get(&self, host: &str, path: &str) -> String {
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ExampleBot/1.0\r\n\r\n")
    }
}

#[test]
fn a_request_goes_to_the_host_that_it_names_and_is_judged() {
    let origin = Origin::start().robots(RULES);
    let (proxy, network) = before(&origin, |_| {});
    let host = origin.authority();
    let mut client = network.connect();
    assert_eq!(client.send(network.get(&host, "/page")).read().text(), "this is /page\n");
    let denied = client.send(network.get(&host, "/private/x")).read();
    assert_eq!((denied.status(), denied.reason().as_str()), (403, "disallow_rule"));
    let via = origin.received("/page").field("via").map(str::to_owned);
    assert!(via.is_some_and(|via| via.contains("courtesy")));
    assert_eq!(proxy.record()["url"], json!(origin.url("/private/x")));
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /page"]);
}

#[test]
fn two_hosts_on_one_connection_are_two_origins() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |_| {});
    let port = origin.address().port();
    let mut client = network.connect();
    for host in [origin.authority(), format!("localhost:{port}")] {
        assert_eq!(client.send(network.get(&host, "/page")).read().status(), 200, "{host}");
    }
    assert_eq!(proxy.stats().entries, 2);
}

#[test]
fn a_request_for_another_port_or_by_two_names_is_refused() {
    let origin = Origin::start();
    let (_proxy, network) = before(&origin, |_| {});
    let authority = origin.authority();
    for request in [
        network.get("127.0.0.1:1", "/"),
        network.get("localhost:80", "/"),
        format!("GET http://{authority}/ HTTP/1.1\r\nHost: example.com\r\n\r\n"),
        format!("GET https://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        assert_eq!(network.connect().send(&request).read().status(), 400, "{request}");
    }
    assert_eq!(origin.request_lines(), [""; 0]);
}

#[test]
fn a_private_address_is_prohibited_whatever_leads_there() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |settings| settings.egress.allow.clear());
    let request = network.get(&origin.authority(), "/");
    assert_eq!(network.connect().send(&request).read().status(), 403);
    assert_eq!(proxy.record()["reason"], "origin_refused");
    assert_eq!(origin.request_lines(), [""; 0]);
}

#[test]
fn a_request_without_a_name_is_for_the_address_and_never_for_the_proxy() {
    let origin = Origin::start();
    let (_proxy, network) = before(&origin, |_| {});
    let loops = network.connect().send("GET / HTTP/1.0\r\n\r\n").read();
    loops.assert_error(502, "proxy_loop_detected");
    assert_eq!(origin.request_lines(), [""; 0]);
}

#[test]
fn https_is_intercepted_by_the_name_in_tls() {
    let origin = Origin::secure().robots(RULES);
    let (proxy, network) = before(&origin, |_| {});
    let authority = format!("localhost:{}", origin.address().port());
    let trusted = proxy.trusted(&["http/1.1"]);
    let mut client = network.connect().secured(trusted, tls::host(&authority)).expect("TLS");
    assert_eq!(client.send(network.get(&authority, "/page")).read().text(), "this is /page\n");
    assert_eq!(client.send(network.get(&authority, "/private/x")).read().status(), 403);
    assert_eq!(proxy.record()["url"], json!(format!("https://{authority}/private/x")));
    // RFC 9110 §7.4: the request names another host than TLS. A proxy generates no 421 (§15.5.20).
    assert_eq!(client.send(network.get("example.com", "/")).read().status(), 400);
}

#[test]
fn a_host_that_is_not_looked_into_is_tunnelled_or_refused() {
    let origin = Origin::secure().robots(RULES);
    let classify = |settings: &mut Settings| {
        settings.https.mode = HttpsMode::Classify;
        settings.https.mixed = MixedHosts::Tunnel;
    };
    let (_proxy, network) = before(&origin, classify);
    let authority = format!("localhost:{}", origin.address().port());
    let trusting = || tls::trusting(tls::origins_ca(), &["http/1.1"]);
    let mut client = network.connect().secured(trusting(), tls::host(&authority)).expect("TLS");
    assert_eq!(client.send(network.get(&authority, "/page")).read().text(), "this is /page\n");
    assert_eq!(origin.received("/page").field("via"), None, "nothing looked into it");

    let all = Origin::secure().robots("User-agent: *\nDisallow: /\n");
    let (proxy, network) = before(&all, classify);
    let authority = format!("localhost:{}", all.address().port());
    let refused = network.connect().secured(trusting(), tls::host(&authority));
    assert!(format!("{:?}", refused.err()).contains("AccessDenied"), "an alert");
    assert_eq!(proxy.record()["reason"], "disallow_rule");
    assert_eq!(proxy.record()["path_seen"], false);
}

#[test]
fn what_is_neither_http_nor_tls_is_closed_and_recorded() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |_| {});
    let mut client = network.connect();
    client.send("SSH-2.0-OpenSSH_9.2\r\n");
    client.assert_closed();
    let record = proxy.record();
    assert_eq!(record["reason"], "tunnel_not_http");
    assert_eq!(record["origin"], json!(format!("https://{}", network.address)));
}

#[test]
fn no_password_is_asked_for() {
    let origin = Origin::start();
    let (_proxy, network) = before(&origin, |settings| {
        let file = settings.state_dir.join("users.toml");
        std::fs::write(&file, "").expect("a directory that can be written to");
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
        settings.clients.users_file = Some(file);
    });
    let request = network.get(&origin.authority(), "/page");
    assert_eq!(network.connect().send(&request).read().status(), 200);
}

#[test]
fn http2_with_prior_knowledge_is_closed_and_recorded() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |_| {});
    let mut client = network.connect();
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.assert_closed();
    assert_eq!(proxy.record()["reason"], "tunnel_not_http");
    assert_eq!(origin.request_lines(), [""; 0]);
}

/// The client of a protocol in which the server speaks first, and one that begins TLS and stays.
#[test]
fn a_client_that_sends_nothing_or_half_a_hello_is_not_waited_for() {
    let origin = Origin::start();
    let (proxy, network) = before(&origin, |settings| {
        settings.limits.handshake_timeout = std::time::Duration::from_millis(100);
    });
    for first in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut client = network.connect();
        client.send(first);
        assert_eq!(client.read_rest(), b"", "{}", first.escape_ascii());
    }
    assert_eq!(origin.request_lines(), [""; 0]);
    let metrics = crate::admin::metrics(&proxy);
    let counts =
        ["client_protocol_total{protocol=\"none\"}", "tls_client_failures_total{alert=\"none\"}"]
            .map(|name| metrics[&format!("courtesy_{name}")]);
    assert_eq!(counts, [1.0, 2.0]);
    assert_eq!(proxy.records(), [serde_json::Value::Null; 0], "nothing was asked for");
}
