//! Starting, being full, and stopping.

use std::net::{SocketAddr, UdpSocket};
use std::thread;

use crate::support::{Client, Origin, Proxy, Script, answer, until};

#[test]
fn a_request_under_way_may_end_when_the_proxy_stops() {
    let origin = Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let mut proxy = Proxy::start();
    let address = proxy.address();
    let mut client = proxy.client();
    let mut idle = proxy.client();
    idle.get(&origin.url("/"));
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| log.requests.iter().any(|it| it.path() == "/slow"));
    thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        idle.assert_closed();
        until("nobody listens", || std::net::TcpStream::connect(address).is_err());
        origin.release();
        let response = client.read();
        assert_eq!((response.status(), response.text().as_str()), (200, "late"));
        client.assert_closed();
        stopping.join().expect("it stops");
    });
}

#[test]
fn what_does_not_end_in_time_does_not_keep_the_proxy() {
    let origin = Origin::start().on("/slow", Script::default().hold());
    let mut proxy =
        Proxy::with(|settings| settings.limits.drain_timeout = std::time::Duration::from_millis(100));
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| log.requests.iter().any(|it| it.path() == "/slow"));
    proxy.stop();
    assert!(client.try_read("GET").is_err());
}

#[test]
fn no_record_is_lost_by_stopping() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /\n");
    let mut proxy = Proxy::start();
    let mut ids = Vec::new();
    let mut client = proxy.client();
    for number in 0..20 {
        let denied = client.get(&origin.url(&format!("/{number}")));
        ids.push(denied.field("courtesy-record").expect("a record").to_owned());
    }
    proxy.stop();
    let records = proxy.records();
    let written: Vec<_> = records.iter().filter_map(|record| record["id"].as_str()).collect();
    assert_eq!(written, ids);
    assert!(records.iter().zip(1..).all(|(record, seq)| record["seq"] == seq));
}

#[test]
fn a_proxy_that_is_full_says_so_and_serves_again() {
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| settings.clients.max_connections = 1);
    let mut inside = proxy.client();
    assert_eq!(inside.get(&origin.url("/")).status(), 200);
    let mut outside = proxy.client();
    let response = outside.get(&origin.url("/turned-away"));
    response.assert_error(503, "connection_limit_reached");
    assert_eq!(response.field("retry-after"), Some("1"));
    outside.assert_closed();
    assert_eq!(origin.count("/turned-away"), 0);
    drop((inside, outside));
    until("there is room again", || proxy.get(&origin.url("/")).status() == 200);
}

/// Loopback may always come in, so this takes another address of this machine: the one that the
/// network is reached by. Nothing is sent there. A machine without one has no strangers.
#[test]
fn a_client_that_is_not_allowed_is_told_so() {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    let own = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).map(|address| address.ip());
    let Ok(own) = own else { return };
    let origin = Origin::start();
    let listening = SocketAddr::from((own, 0));

    let proxy = Proxy::at(listening, |_| {});
    let mut stranger = Client::connect(proxy.address());
    let response = stranger.get(&origin.url("/"));
    response.assert_error(403, "http_request_denied");
    assert_eq!(response.field("courtesy-record"), None, "no decision about a robots.txt");
    stranger.assert_closed();
    assert_eq!(origin.log().connections, 0);

    let proxy = Proxy::at(listening, |settings| settings.clients.allow = vec![own.into()]);
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
}
