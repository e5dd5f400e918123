//! Starting, being full, and stopping.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::config::{Roots, Settings};
use courtesy::runtime::clock::{Clock, monotonic};
use courtesy::server::{Listeners, Server, build};
use courtesy::types::origin::HostPattern;
use courtesy::types::timestamp::Timestamp;

use crate::testkit::parties::{Client, NOW, Origin, Proxy, Script, answer, tls, until};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// The listener is gone, so the proxy has begun to stop.
fn begin_to_stop<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    proxy: &'scope mut Proxy,
) -> thread::ScopedJoinHandle<'scope, ()> {
    let address = proxy.address();
    let stopping = scope.spawn(|| proxy.stop());
    until("nobody listens", || std::net::TcpStream::connect(address).is_err());
    stopping
}

#[test]
fn a_request_under_way_may_end_when_the_proxy_stops() {
    let origin =
        Origin::start().on("/slow", Script::default().hold().send(answer(200, "", "late")));
    let mut proxy = Proxy::start();
    let address = proxy.address();
    let mut client = proxy.client();
    let mut idle = proxy.client();
    idle.get(&origin.url("/"));
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
    thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        idle.assert_closed();
        until("nobody listens", || std::net::TcpStream::connect(address).is_err());
        origin.release();
        let response = client.read();
        assert_eq!((response.status(), response.text().as_str()), (200, "late"));
        assert_eq!(response.field("connection"), Some("close"));
        client.assert_closed();
        stopping.join().expect("it stops");
    });
}

#[test]
fn what_does_not_end_in_time_does_not_keep_the_proxy() {
    let origin = Origin::start().on("/slow", Script::default().hold());
    let mut proxy = Proxy::with(|settings| {
        settings.limits.drain_timeout = std::time::Duration::from_millis(100)
    });
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/slow"), "");
    origin.wait_until("the request is there", |log| {
        log.requests.iter().any(|it| it.path() == "/slow")
    });
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
    assert!(proxy.lines().iter().zip(1..).all(|(line, seq)| line["seq"] == seq));
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
    let own = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr())
        .map(|address| address.ip());
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

#[test]
fn who_has_just_come_is_still_answered_when_the_proxy_stops() {
    let origin = Origin::start();
    let mut proxy = Proxy::start();
    let (mut came, mut asked) = (proxy.client(), proxy.client());
    // It is in: who came after it has been answered.
    asked.get(&origin.url("/"));
    thread::scope(|scope| {
        let stopping = begin_to_stop(scope, &mut proxy);
        let response = came.get(&origin.url("/first"));
        assert_eq!((response.status(), response.field("connection")), (200, Some("close")));
        came.assert_closed();
        stopping.join().expect("it stops");
    });
}

#[test]
fn an_idle_tunnel_does_not_delay_the_drain_and_one_in_use_does() {
    let origin = Origin::start().on("/socket", Script::default().send(SWITCH).echo());
    let secure = Origin::secure();
    let mut proxy = Proxy::before(&[&secure], |settings| {
        settings.limits.drain_timeout = Duration::from_mins(1);
        settings.https.tunnel = vec![HostPattern::new("127.0.0.1").expect("a host")];
    });
    let upgraded = || {
        let mut client = proxy.client();
        assert_eq!(client.ask("GET", &origin.url("/socket"), UPGRADE).read_head().status(), 101);
        client
    };
    let (mut quiet, mut busy) = (upgraded(), upgraded());
    let blind = proxy.client().tunnel(&secure.authority());
    let mut blind = blind
        .secured(tls::trusting(tls::origins_ca(), &[]), "127.0.0.1")
        .expect("the origin's own");
    assert_eq!(blind.get("/").status(), 200);
    let began = monotonic();
    thread::scope(|scope| {
        let stopping = begin_to_stop(scope, &mut proxy);
        let talking = scope.spawn(move || {
            // Longer than a silent one is left alone.
            while monotonic() - began < Duration::from_secs(3) {
                busy.send("x");
                assert_eq!(busy.read_bytes(1), b"x");
                thread::park_timeout(Duration::from_millis(50));
            }
        });
        quiet.assert_closed();
        assert!(blind.try_read("GET").is_err(), "it ends");
        assert!(!talking.is_finished(), "the quiet ones went before");
        talking.join().expect("it was served to the end");
        stopping.join().expect("it stops");
    });
    assert!(monotonic() - began < Duration::from_secs(20), "{:?}", monotonic() - began);
}

/// A clock that panics, once it is armed, on whoever of these threads reads it next.
#[derive(Debug)]
struct BrokenClock {
    armed: AtomicBool,
    thread: &'static str,
}

impl Clock for BrokenClock {
    fn wall(&self) -> Timestamp {
        let is_here = thread::current().name().is_some_and(|name| name.starts_with(self.thread));
        assert!(!(is_here && self.armed.swap(false, Ordering::SeqCst)), "the clock is broken");
        NOW
    }
}

/// A proxy whose clock can be broken.
fn with_clock(clock: &Arc<BrokenClock>) -> (Server, SocketAddr, tempfile::TempDir) {
    let state = tempfile::tempdir().expect("a directory");
    let mut settings =
        Settings { state_dir: state.path().into(), workers: Some(1), ..Settings::default() };
    settings.egress.allow = vec!["127.0.0.0/8".parse().expect("a block")];
    settings.tls.roots = Roots::Bundled;
    let listeners = Listeners::bind(&[(Ipv4Addr::LOCALHOST, 0).into()]).expect("a free port");
    let (own, ca) = (listeners.addresses(), settings.ca(None));
    let components = build(&settings, own, ca, Arc::clone(clock) as _).expect("sound settings");
    let server = Server::start(listeners, &components).expect("threads");
    let address = server.addresses()[0];
    (server, address, state)
}

#[test]
fn a_panic_costs_one_connection_and_the_worker_lives() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /private/\n");
    let clock = Arc::new(BrokenClock { armed: AtomicBool::new(false), thread: "worker" });
    let (server, address, _state) = with_clock(&clock);
    let mut beside = Client::connect(address);
    assert_eq!(beside.get(&origin.url("/")).status(), 200);
    for _ in 0..3 {
        let mut unlucky = Client::connect(address);
        assert_eq!(unlucky.get(&origin.url("/")).status(), 200);
        clock.armed.store(true, Ordering::SeqCst);
        unlucky.ask("GET", &origin.url("/lost"), "");
        assert!(unlucky.try_read("GET").is_err());
        assert!(!clock.armed.load(Ordering::SeqCst), "it has panicked");
    }
    assert_eq!(origin.count("/lost"), 0, "what panics is not forwarded");
    assert_eq!(beside.get(&origin.url("/")).status(), 200);
    assert_eq!(beside.get(&origin.url("/private/")).status(), 403);
    assert_eq!(Client::connect(address).get(&origin.url("/")).status(), 200);
    server.stop();
}

#[test]
fn without_the_writer_of_records_denials_are_still_denials() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /private/\n");
    let clock = Arc::new(BrokenClock { armed: AtomicBool::new(false), thread: "audit" });
    let (server, address, _state) = with_clock(&clock);
    let mut client = Client::connect(address);
    assert_eq!(client.get(&origin.url("/private/")).status(), 403);
    clock.armed.store(true, Ordering::SeqCst);
    until("it has panicked", || {
        assert_eq!(client.get(&origin.url("/private/")).status(), 403);
        !clock.armed.load(Ordering::SeqCst)
    });
    assert_eq!(client.get(&origin.url("/private/")).status(), 403);
    assert_eq!(origin.count("/private/"), 0);
    server.stop();
}
