//! Connections that do nothing for a moment: the proxy lets go of what only a request needs, and nobody
//! outside can tell.

use std::thread;
use std::time::Duration;

use courtesy::egress::config::ORIGIN_READ_SMALL_BYTES;
use courtesy::proxy::HTTP1_STATE_IDLE;
use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Client, Origin, Proxy, Script, connect, ok, request, tls, until};

const RULES: &str = "User-agent: *\nDisallow: /private/\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// Longer than a connection that has made a request or two does nothing before it is idle.
fn be_idle() {
    thread::sleep(HTTP1_STATE_IDLE * 3);
}

/// Over connections to the proxy, and over intercepted ones inside a CONNECT.
fn both(check: impl Fn(&Origin, &dyn Fn() -> Client)) {
    let origin = Origin::with_robots(RULES);
    let proxy = Proxy::start();
    check(&origin, &|| proxy.client());
    let origin = Origin::secure().robots(RULES);
    let proxy = Proxy::before(&[&origin], |_| {});
    check(&origin, &|| proxy.https(&origin.authority()));
}

#[test]
fn whoever_was_at_rest_is_served_as_before() {
    both(|origin, connect| {
        let mut client = connect();
        be_idle();
        let page = client.get(&origin.url("/first"));
        assert_eq!((page.status(), page.field("connection")), (200, None));
        be_idle();
        let denied = client.get(&origin.url("/private/"));
        assert_eq!((denied.status(), denied.field("connection")), (403, None));
        be_idle();
        let last = client.exchange("GET", &origin.url("/last"), "Connection: close\r\n");
        assert_eq!((last.status(), last.field("connection")), (200, Some("close")));
        client.assert_closed();
    });
}

#[test]
fn an_upload_and_an_upgrade_may_follow_a_rest() {
    let origin = Origin::start().on("/socket", Script::default().send(SWITCH).echo());
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    be_idle();
    client.ask("POST", &origin.url("/upload"), "Content-Length: 4\r\nExpect: 100-continue\r\n");
    assert_eq!(client.read_head().status(), 100);
    assert_eq!(client.send("body").read().status(), 200);
    assert_eq!(origin.received("/upload").body, b"body");
    be_idle();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(client.ask("GET", &origin.url("/socket"), upgrade).read_head().status(), 101);
    be_idle();
    client.send("hello");
    assert_eq!(client.read_bytes(5), b"hello");
}

/// Around the moment in which the engine goes, and in pieces: none is lost, whoever holds them.
#[test]
fn bytes_that_come_while_the_engine_goes_are_not_lost() {
    both(|origin, connect| {
        for late in 0..20 {
            let mut client = connect();
            assert_eq!(client.get(&origin.url("/")).status(), 200);
            thread::sleep(
                HTTP1_STATE_IDLE - Duration::from_millis(10) + Duration::from_millis(late),
            );
            let url = |number| origin.url(&format!("/{late}-{number}"));
            let [first, second, third] = [1, 2, 3].map(|number| request("GET", &url(number), ""));
            let (begun, rest_of_it) = third.split_at(10);
            client.send(first + &second + begun);
            assert_eq!(client.read().text(), format!("this is /{late}-1\n"));
            assert_eq!(client.read().text(), format!("this is /{late}-2\n"));
            client.send(rest_of_it);
            assert_eq!(client.read().text(), format!("this is /{late}-3\n"));
        }
    });
}

#[test]
fn a_head_that_begins_slowly_is_waited_for_while_nothing_else_is() {
    both(|origin, connect| {
        let mut client = connect();
        assert_eq!(client.get(&origin.url("/")).status(), 200);
        be_idle();
        let whole = request("GET", &origin.url("/slowly"), "");
        let (begun, rest_of_it) = whole.split_at(5);
        client.send(begun);
        be_idle();
        client.send(rest_of_it);
        assert_eq!(client.read().text(), "this is /slowly\n");
    });
}

#[test]
fn slowloris_a_head_that_takes_too_long_after_a_rest_is_told_so() {
    let origin = Origin::start();
    let proxy = Proxy::with(|settings| settings.limits.header_timeout = Duration::from_millis(500));
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/")).status(), 200);
    be_idle();
    client.send("GET http");
    client.read().assert_error(408, "http_request_error");
    client.assert_closed();
}

#[test]
fn what_cannot_be_a_request_is_told_so_after_a_rest() {
    both(|origin, connect| {
        let mut client = connect();
        assert_eq!(client.get(&origin.url("/")).status(), 200);
        be_idle();
        client.send("\0");
        client.read().assert_error(400, "http_request_error");
        client.assert_closed();
    });
}

#[test]
fn a_proxy_that_stops_does_not_wait_for_who_is_at_rest() {
    let (plain, secure) = (Origin::start(), Origin::secure());
    let mut proxy = Proxy::before(&[&plain, &secure], |settings| {
        settings.limits.drain_timeout = Duration::from_secs(60);
    });
    let (mut client, mut inside) = (proxy.client(), proxy.https(&secure.authority()));
    assert_eq!(client.get(&plain.url("/")).status(), 200);
    assert_eq!(inside.get("/").status(), 200);
    be_idle();
    let began = monotonic();
    proxy.stop();
    client.assert_closed();
    assert!(inside.try_read("GET").is_err(), "it ends");
    assert!(monotonic() - began < Duration::from_secs(20), "{:?}", monotonic() - began);
}

#[test]
fn whoever_leaves_while_at_rest_leaves_its_place() {
    let (plain, secure) = (Origin::start(), Origin::secure());
    let proxy = Proxy::before(&[&plain, &secure], |settings| settings.clients.max_connections = 1);
    for _ in 0..2 {
        let mut client = proxy.client();
        until("there is room", || {
            client = proxy.client();
            client.get(&plain.url("/")).status() == 200
        });
        be_idle();
        assert_eq!(proxy.get(&plain.url("/")).status(), 503, "it is still in");
        drop(client);
        let mut inside = proxy.client();
        until("there is room again", || {
            inside = proxy.client();
            inside.send(connect(&secure.authority(), "")).read_head().status() == 200
        });
        let mut inside =
            inside.secured(proxy.trusted(&[]), tls::host(&secure.authority())).expect("TLS");
        assert_eq!(inside.get(&secure.url("/")).status(), 200);
        be_idle();
        assert_eq!(proxy.get(&plain.url("/")).status(), 503, "it is still in");
        drop(inside);
    }
}

#[test]
fn slowloris_nobody_is_at_rest_for_longer_than_the_idle_timeout() {
    let (plain, secure) = (Origin::start(), Origin::secure());
    let idle = HTTP1_STATE_IDLE * 5;
    let proxy = Proxy::before(&[&plain, &secure], |settings| settings.limits.idle_timeout = idle);
    let (mut client, mut inside) = (proxy.client(), proxy.https(&secure.authority()));
    for _ in 0..2 {
        assert_eq!(client.get(&plain.url("/")).status(), 200);
        assert_eq!(inside.get("/").status(), 200);
        be_idle();
    }
    let began = monotonic();
    assert_eq!(client.get(&plain.url("/")).status(), 200);
    assert_eq!(inside.get("/").status(), 200);
    client.assert_closed();
    inside.assert_closed();
    let waited = monotonic() - began;
    assert!(waited >= idle && waited < idle * 20, "{waited:?}");
}

#[test]
fn whoever_ends_its_side_while_at_rest_is_let_go() {
    both(|origin, connect| {
        let mut client = connect();
        assert_eq!(client.get(&origin.url("/")).status(), 200);
        be_idle();
        client.finish_sending();
        client.assert_closed();
    });
}

/// hyper never shrinks the buffer that it has enlarged for the largest reads.
#[test]
fn a_connection_is_closed_after_a_response_in_the_largest_reads() {
    const LARGE: usize = 9 << 20;
    let origin = Origin::start()
        .on("/large", ok(vec![b'x'; LARGE]))
        .on("/medium", ok(vec![b'x'; 2 * ORIGIN_READ_SMALL_BYTES]))
        .on("/small", ok(vec![b'x'; ORIGIN_READ_SMALL_BYTES - 1024]));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for (path, is_kept) in [("/small", true), ("/medium", true), ("/large", false)] {
        let mut connection = || {
            let url = origin.named(&format!("of-{}", &path[1..]), path);
            assert_eq!(client.get(&url).status(), 200);
            origin.log().requests.last().unwrap().connection
        };
        assert_eq!(connection() == connection(), is_kept, "{path}");
    }
}
