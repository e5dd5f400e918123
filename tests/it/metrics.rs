//! What is counted beside the everyday: ways that are closed, turns that are waited for, connections
//! that are kept, certificates that are not trusted.

use crate::admin::metrics;
use crate::testkit::parties::{Client, Origin, Proxy, Script, answer, connect, tls, until};

#[track_caller]
fn metric(proxy: &Proxy, name: &str) -> f64 {
    *metrics(proxy).get(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_way_that_is_closed_is_counted_by_who_closed_it() {
    let proxy = Proxy::with(|settings| {
        settings.egress.deny_hosts = vec!["closed.example".parse().unwrap()]
    });
    let refused =
        |kind: &str| metric(&proxy, &format!("courtesy_egress_refusals_total{{kind=\"{kind}\"}}"));
    assert_eq!(["address", "host", "port", "loop"].map(refused), [0.0; 4]);
    assert_eq!(proxy.get("http://169.254.169.254/latest/").status(), 403);
    assert_eq!(proxy.get("http://closed.example/").status(), 403);
    assert_eq!(proxy.client().send(connect("127.0.0.1:25", "")).read_to("CONNECT").status(), 403);
    assert_eq!(proxy.get(&format!("http://{}/", proxy.address())).status(), 502);
    assert_eq!(["address", "host", "port", "loop"].map(refused), [1.0; 4]);
    let basis = "courtesy_decisions_total{decision=\"deny\",basis=\"origin_refused\"}";
    assert_eq!(metric(&proxy, basis), 3.0);
}

#[test]
fn who_waits_for_a_turn_is_in_the_queue_and_then_among_those_who_waited() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let proxy = Proxy::with(|settings| settings.egress.max_per_origin = 1);
    let mut first = proxy.client();
    first.ask("GET", &origin.url("/slow"), "");
    origin
        .wait_until("the first is there", |log| log.requests.iter().any(|it| it.path() == "/slow"));
    assert_eq!(metric(&proxy, "courtesy_queue_depth"), 0.0);
    assert_eq!(metric(&proxy, "courtesy_pool_connections{state=\"in_use\"}"), 1.0);
    let mut second = proxy.client();
    second.ask("GET", &origin.url("/next"), "");
    until("the second waits", || metric(&proxy, "courtesy_queue_depth") == 1.0);
    origin.release();
    assert_eq!((first.read().status(), second.read().status()), (200, 200));
    let now = metrics(&proxy);
    assert_eq!(now["courtesy_queue_depth"], 0.0);
    assert_eq!(now["courtesy_request_duration_seconds_count{phase=\"wait\"}"], 1.0);
    assert_eq!(now["courtesy_queue_rejected_total"], 0.0);
    until("a connection is kept", || {
        metric(&proxy, "courtesy_pool_connections{state=\"idle\"}") >= 1.0
    });
    assert_eq!(metric(&proxy, "courtesy_pool_connections{state=\"in_use\"}"), 0.0);
}

#[test]
fn a_client_that_does_not_trust_the_ca_is_counted_by_its_alert() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let tunnel = proxy.client().tunnel(&authority);
    assert!(tunnel.secured(tls::trusting(tls::origins_ca(), &[]), tls::host(&authority)).is_err());
    let failed = "courtesy_tls_client_failures_total{alert=\"unknown_ca\"}";
    until("the alert is counted", || metric(&proxy, failed) == 1.0);
    assert_eq!(proxy.https(&authority).get("/").status(), 200);
    let now = metrics(&proxy);
    assert_eq!(now["courtesy_tunnel_protocol_total{kind=\"tls\"}"], 2.0);
    assert_eq!(now["courtesy_leaf_certificates_minted_total"], 1.0);
    assert_eq!(
        (now["courtesy_leaf_cache_entries"], now["courtesy_leaf_cache_hits_total"]),
        (1.0, 1.0)
    );
    let ca = proxy.leaves.authority().certificate().not_after();
    assert_eq!(now["courtesy_ca_expiry_timestamp_seconds"], ca.millis() as f64 / 1000.0);
}

#[test]
fn a_client_that_leaves_its_handshake_is_counted_without_an_alert() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let mut tunnel: Client = proxy.client().tunnel(&origin.authority());
    tunnel.send([0x16, 0x03, 0x01]);
    drop(tunnel);
    let left = "courtesy_tls_client_failures_total{alert=\"none\"}";
    until("it is counted", || metric(&proxy, left) == 1.0);
}

/// As clients with GnuTLS leave when they do not trust the certificate, and others that only look; by either protocol.
#[test]
fn a_client_that_leaves_after_its_handshake_without_a_request_is_counted() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let unused = || metric(&proxy, "courtesy_tls_client_unused_total");
    let secured = |alpn: &str| {
        let tunnel = proxy.client().tunnel(&authority);
        tunnel.secured(proxy.trusted(&[alpn]), tls::host(&authority)).expect("a handshake")
    };
    // With close_notify, without, and without a word in HTTP/2.
    secured("http/1.1").finish_sending();
    until("it is counted", || unused() == 1.0);
    drop(secured("http/1.1"));
    until("it is counted", || unused() == 2.0);
    drop(secured("h2"));
    until("it is counted", || unused() == 3.0);

    // Half a request, or a whole one, is something else.
    let mut half = secured("http/1.1");
    half.send("GET / HT");
    drop(half);
    assert_eq!(proxy.https(&authority).get("/").status(), 200);
    assert_eq!(proxy.h2(&authority).get("/").status, 200);
    let _idle = secured("http/1.1");
    until("all others have ended", || metric(&proxy, "courtesy_connections") <= 2.0);
    assert_eq!(unused(), 3.0);
    assert_eq!(metric(&proxy, "courtesy_tls_clients_distrusting_total"), 0.0);
}

#[test]
fn a_client_that_does_not_trust_the_ca_is_named_once() {
    let origin = Origin::secure();
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    let failed = "courtesy_tls_client_failures_total{alert=\"unknown_ca\"}";
    for count in 1..4 {
        let tunnel = proxy.client().tunnel(&authority);
        assert!(
            tunnel.secured(tls::trusting(tls::origins_ca(), &[]), tls::host(&authority)).is_err()
        );
        until("the alert is counted", || metric(&proxy, failed) == f64::from(count));
    }
    until("it is named", || metric(&proxy, "courtesy_tls_clients_distrusting_total") == 1.0);
}

#[test]
fn connections_are_counted_by_their_listener_and_their_protocol() {
    let origin = Origin::start();
    let address = (std::net::Ipv4Addr::new(127, 0, 77, 1), origin.address().port()).into();
    let proxy = Proxy::transparent(address, &[&origin], |_| {});
    let metric = |name: &str| metric(&proxy, name);
    let accepted =
        |by: &str| metric(&format!("courtesy_connections_accepted_total{{listener=\"{by}\"}}"));
    let began = |with: &str| {
        let name = format!("courtesy_client_protocol_total{{protocol=\"{with}\"}}");
        until(with, || metric(&name) == 1.0);
    };
    for (first, protocol) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "http1"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2"),
        (b"\x16\x03\x01", "tls"),
        (b"\x05\x01\0", "socks5"),
    ] {
        proxy.client().send(first);
        began(protocol);
    }
    drop(proxy.client());
    began("none");
    assert_eq!(["proxy", "transparent", "sealed"].map(accepted), [5.0, 0.0, 0.0]);
    Client::connect(address).send(b"SSH-2.0-x\r\n");
    began("other");
    assert_eq!(["proxy", "transparent", "sealed"].map(accepted), [5.0, 0.0, 1.0]);
}
