//! What takes a turn, what it does while it waits, and when it gives its place back.

use std::thread;
use std::time::Duration;

use courtesy::config::{HttpsMode, ProfileName, Settings};
use courtesy::pace::lane::LONG_TRANSFER;
use courtesy::runtime::clock::monotonic;

use crate::admin::metrics;
use crate::testkit::parties::{AGENT, H2, Origin, Proxy, Script, answer, connect, ok_with, until};
use crate::testkit::spacing::{LATENESS, RESOLUTION, assert_origin_spaced};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

fn asking_for(seconds: f64) -> Origin {
    Origin::with_robots(&format!("User-agent: *\nCrawl-delay: {seconds}\n"))
}

/// One request at a time.
fn one_place(settings: &mut Settings) {
    settings.pace.concurrency = 1;
}

fn waiting(proxy: &Proxy) -> usize {
    metrics(proxy)["courtesy_pace_waiting"] as usize
}

#[test]
fn requests_of_every_method_and_of_ranges_take_a_turn_each() {
    let moved = answer(302, "Location: /there\r\n", "");
    let origin = asking_for(0.2).on("/moved", Script::default().send(moved));
    let proxy = Proxy::start();
    let methods = ["GET", "HEAD", "OPTIONS", "DELETE", "GET", "GET"];
    let paths = ["/", "/", "/", "/", "/moved", "/there"];
    for (method, path) in methods.into_iter().zip(paths) {
        let status = proxy.exchange(method, &origin.url(path), "Range: bytes=0-0\r\n").status();
        assert_eq!(status, if path == "/moved" { 302 } else { 200 }, "{method}");
    }
    assert_origin_spaced(&origin, 6, Duration::from_millis(200));
}

#[test]
fn the_time_that_a_request_waits_on_its_connection_is_not_the_origins() {
    let origin = asking_for(1.2);
    let proxy = Proxy::with(|settings| {
        settings.egress.response_timeout = Duration::from_millis(300);
    });
    // The turn comes 600 ms before the start.
    for path in ["/a", "/b"] {
        let response = proxy.get(&origin.url(path));
        assert_eq!(response.status(), 200, "{}", response.text());
    }
    assert_origin_spaced(&origin, 2, Duration::from_millis(1200));
}

#[test]
fn a_body_is_not_read_while_its_request_waits() {
    let (origin, proxy) = (asking_for(10.0), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/first")).status(), 200);
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/upload"), "Content-Length: 1000000000\r\n");
    let (sent, _) = client.send_until_stalled(&[b'x'; 1 << 16]);
    // What the sockets on both sides hold.
    assert!(sent < 16 << 20, "{sent} bytes were taken");
    assert_eq!(waiting(&proxy), 1);
    client.reset();
    until("its place is free", || waiting(&proxy) == 0);
    assert_eq!(origin.count("/upload"), 0);
}

#[test]
fn a_client_that_expects_a_100_has_it_in_its_turn() {
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let script = Script::default().send(go_on).read_body().send(answer(200, "", "thanks"));
    let origin = asking_for(0.8).on("/upload", script);
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/first")).status(), 200);
    let mut client = proxy.client();
    client.ask("POST", &origin.url("/upload"), "Expect: 100-continue\r\nContent-Length: 4\r\n");
    assert_eq!(client.read_head().status(), 100);
    assert_eq!(origin.count("/upload"), 1, "not before its start");
    assert_eq!(client.send("body").read().status(), 200);
    assert_eq!(origin.received("/upload").body, b"body");
    assert_origin_spaced(&origin, 2, Duration::from_millis(800));
}

#[test]
fn an_upgraded_connection_takes_no_place() {
    let script = Script::default().send(SWITCH).echo();
    let (origin, proxy) = (Origin::start().on("/socket", script), Proxy::with(one_place));
    let mut client = proxy.client();
    assert_eq!(client.ask("GET", &origin.url("/socket"), UPGRADE).read_head().status(), 101);
    let page = proxy.exchange("GET", &origin.url("/page"), "Prefer: wait=1\r\n");
    assert_eq!((page.status(), page.field("courtesy-waited")), (200, None));
    client.send("still open");
    assert_eq!(client.read_bytes(10), b"still open");
}

#[test]
fn a_long_response_takes_a_place_for_a_while_and_a_silent_origin_keeps_it() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";
    let events = Script::default().send(head).hold().send("data: 2\n\n").close();
    let silent = Script::default().hold().send(answer(200, "", ""));
    let origin = Origin::start().on("/events", events).on("/silent", silent);
    let proxy = Proxy::with(one_place);
    let mut stream = proxy.client();
    assert_eq!(stream.ask("GET", &origin.url("/events"), "").read_head().status(), 200);
    // So that it is over in a while.
    proxy.clock.advance(LONG_TRANSFER - Duration::from_millis(300));
    let page = proxy.get(&origin.url("/page"));
    let waited = page.field("courtesy-waited").expect("it waited");
    assert!(page.status() == 200 && waited.ends_with(";by=concurrency"), "{waited}");

    let mut silent = proxy.client();
    silent.ask("GET", &origin.url("/silent"), "");
    origin.wait_until("it is there", |log| log.requests.iter().any(|it| it.path() == "/silent"));
    let page = proxy.exchange("GET", &origin.url("/page"), "Prefer: wait=1\r\n");
    page.assert_error(429, "http_request_error");
    assert!(page.text().contains("pace.concurrency"), "{}", page.text());
    origin.release();
    assert_eq!(silent.read().status(), 200);
    let chunks = b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n";
    assert_eq!(stream.read_bytes(chunks.len()), chunks);
}

#[test]
fn streams_of_one_connection_do_not_wait_for_each_other() {
    let robots = "User-agent: slow\nCrawl-delay: 30\n\nUser-agent: *\nAllow: /\n";
    let origin = Origin::secure().robots(robots);
    let proxy = Proxy::before(&[&origin], |_| {});
    let client = proxy.h2(&origin.authority());
    let ask = |agent: &str, path: &str| {
        let mut request = client.request("GET", path);
        let headers = request.headers_mut().expect("a sound request");
        headers.insert("user-agent", agent.parse().expect("a name"));
        client.ask(request)
    };
    assert_eq!(client.answer(ask("slow/1", "/a")).status, 200);
    let held = ask("slow/1", "/b");
    until("it waits", || waiting(&proxy) == 1);
    for _ in 0..3 {
        let answer = client.answer(ask("other/1", "/c"));
        assert_eq!((answer.status, answer.field("courtesy-waited")), (200, None));
    }
    drop((held, client));
    until("it is gone", || waiting(&proxy) == 0);
    assert_eq!(origin.count("/b"), 0);
}

#[test]
fn a_stream_or_a_connection_that_ends_before_its_turn_costs_no_start() {
    const DELAY: Duration = Duration::from_millis(1200);
    let robots = "User-agent: *\nCrawl-delay: 1.2\n";
    let (plain, secure) = (Origin::with_robots(robots), Origin::secure().robots(robots));
    let proxy = Proxy::before(&[&secure], |_| {});
    let authority = secure.authority();
    // In clear, and inside a CONNECT.
    let clients: [(&Origin, &dyn Fn() -> H2); 2] = [
        (&plain, &|| H2::in_clear(proxy.client().into_tcp())),
        (&secure, &|| proxy.h2(&authority)),
    ];
    for (origin, connect) in clients {
        let request = |path: &str| {
            let request = http::Request::builder().method("GET").uri(origin.url(path));
            request.header("user-agent", AGENT)
        };
        let stays = connect();
        assert_eq!(stays.answer(stays.ask(request("/first"))).status, 200);
        for is_stream in [true, false] {
            // On a busy machine it may leave too late, which shows nothing.
            loop {
                let (before, arrivals) = (origin.count("/left"), origin.arrivals());
                let turn = *arrivals.last().expect("one") + DELAY;
                let leaves = connect();
                let left = leaves.ask(request("/left"));
                let late = || monotonic() > turn - DELAY / 2;
                until("it waits, or it is late", || waiting(&proxy) == 1 || late());
                let last = stays.ask(request("/last"));
                until("both wait, or it is late", || waiting(&proxy) == 2 || late());
                leaves.reset(left);
                if !is_stream {
                    drop(leaves);
                }
                let is_in_time = monotonic() < turn - LATENESS;
                assert_eq!(stays.answer(last).status, 200);
                let is_sent = origin.count("/left") > before;
                assert!(!is_sent || !is_in_time, "a turn was spent on a client that had left");
                if is_in_time {
                    break;
                }
            }
        }
        assert_origin_spaced(origin, origin.arrivals().len(), DELAY);
    }
}

#[test]
fn a_tunnel_takes_a_turn_and_no_place() {
    let origin = Origin::secure().robots("User-agent: *\nCrawl-delay: 0.4\n");
    let proxy = Proxy::before(&[&origin], |settings| {
        one_place(settings);
        settings.https.mode = HttpsMode::Classify;
    });
    let authority = origin.authority();
    let begun = monotonic();
    let tunnels: Vec<_> = (0..3).map(|_| proxy.client().tunnel(&authority)).collect();
    assert!(begun.elapsed() + RESOLUTION >= Duration::from_millis(800));
    assert_eq!(tunnels.len(), 3, "all of them open at once");
}

#[test]
fn a_tunnel_that_has_waited_is_decided_on_again() {
    let origin = Origin::secure().robots("User-agent: *\nCrawl-delay: 2\n");
    let shut = ok_with("Content-Type: text/plain\r\n", "User-agent: *\nDisallow: /\n");
    let origin = origin.then("/robots.txt", shut);
    let proxy = Proxy::before(&[&origin], |settings| settings.https.mode = HttpsMode::Classify);
    let authority = origin.authority();
    drop(proxy.client().tunnel(&authority));
    let mut second = proxy.client();
    second.send(connect(&authority, ""));
    until("it waits", || waiting(&proxy) == 1);
    proxy.clock.advance(Duration::from_secs(25 * 60 * 60));
    assert_eq!(second.read_to("CONNECT").status(), 403);
    assert_eq!(proxy.record()["event"], "denied");
}

#[test]
fn after_a_hold_one_request_goes_first() {
    let busy = answer(429, "Retry-After: 1\r\n", "");
    let late = Script::default().hold().send(answer(200, "", ""));
    let origin = Origin::start().on("/busy", Script::default().send(busy)).on("/late", late);
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/busy")).status(), 429);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(proxy.get(&origin.url("/late")).status(), 200));
        }
        origin.wait_until("the first is there", |log| log.requests.len() >= 3);
        until("the others wait", || waiting(&proxy) == 5);
        assert_eq!(origin.count("/late"), 1);
        origin.release();
    });
    assert_eq!(origin.count("/late"), 6);
}

#[test]
fn failures_in_a_row_are_answered_as_unavailable_until_a_response() {
    let origin = Origin::start()
        .on("/broken", Script::default().send(answer(500, "", "")))
        .on("/reset", Script::default().reset());
    let proxy = Proxy::start();
    for _ in 0..6 {
        assert_eq!(proxy.get(&origin.url("/reset")).status(), 502);
    }
    assert_eq!(proxy.get(&origin.url("/good")).status(), 200);
    for _ in 0..5 {
        assert_eq!(proxy.get(&origin.url("/broken")).status(), 500);
    }
    let held = proxy.exchange("GET", &origin.url("/page"), "Prefer: wait=0\r\n");
    held.assert_error(503, "destination_unavailable");
    assert_eq!((origin.count("/reset"), origin.count("/page")), (6, 0));
    assert_eq!(proxy.get(&origin.url("/page")).status(), 200, "after a second");
}

#[test]
fn hours_are_waited_for_where_the_profile_obeys_them() {
    let origin = Origin::with_robots("User-agent: *\nVisit-time: 0001-0100\n");
    let proxy = Proxy::with(|settings| settings.robots.profile = ProfileName::Conservative);
    // It is midnight.
    let closed = proxy.exchange("GET", &origin.url("/"), "Prefer: wait=10\r\n");
    closed.assert_error(503, "destination_unavailable");
    let after: u64 = closed.field("retry-after").expect("a time").parse().expect("seconds");
    assert!((59..=60).contains(&after), "{after}");
    thread::scope(|scope| {
        let held = scope.spawn(|| proxy.get(&origin.url("/")).status());
        until("it waits", || waiting(&proxy) == 1);
        assert_eq!(origin.count("/"), 0);
        proxy.clock.advance(Duration::from_secs(60));
        assert_eq!(proxy.get(&origin.url("/other")).status(), 200);
        assert_eq!(held.join().expect("no panic"), 200);
    });
}

#[test]
fn a_quota_of_concurrent_requests_bounds_those_under_way() {
    let fields =
        "RateLimit-Policy: \"c\";q=4;qu=\"concurrent-requests\"\r\nRateLimit: \"c\";r=1;t=60\r\n";
    let late = Script::default().hold().send(answer(200, "", ""));
    let origin = Origin::start().on("/quota", ok_with(fields, "")).on("/late", late);
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/quota")).status(), 200);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(proxy.get(&origin.url("/late")).status(), 200));
        }
        until("the others wait", || waiting(&proxy) == 2);
        origin.wait_until("one is there", |log| log.requests.len() == 3);
        origin.release();
    });
    assert_eq!(origin.count("/late"), 3);
}

#[test]
fn a_low_quota_is_spread_from_the_next_request_on() {
    let low = ok_with("RateLimit: \"a\";r=1;t=2\r\n", "");
    let (origin, proxy) = (Origin::start().on("/low", low), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/low")).field("ratelimit"), Some("\"a\";r=1;t=2"));
    let next = proxy.get(&origin.url("/next"));
    let waited = next.field("courtesy-waited").expect("it waited");
    assert!(next.status() == 200 && waited.ends_with(";by=delay"), "{waited}");
    assert_origin_spaced(&origin, 2, Duration::from_secs(1));
}

#[test]
fn a_drain_refuses_at_once_what_cannot_start_in_time() {
    let origin = asking_for(1.2);
    let mut proxy = Proxy::start();
    let (mut near, mut far) = (proxy.client(), proxy.client());
    assert_eq!(proxy.get(&origin.url("/first")).status(), 200);
    near.ask("GET", &origin.url("/near"), "");
    until("it waits", || waiting(&proxy) == 1);
    far.ask("GET", &origin.url("/far"), "");
    until("both wait", || waiting(&proxy) == 2);
    thread::scope(|scope| {
        let stopping = scope.spawn(|| proxy.stop());
        let begun = monotonic();
        let refused = far.read();
        refused.assert_error(503, "connection_limit_reached");
        assert_eq!(refused.json()["type"], "http://courtesy.internal/problems/busy");
        assert_eq!(refused.field("connection"), Some("close"));
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let served = near.read();
        assert_eq!((served.status(), served.field("connection")), (200, Some("close")));
        stopping.join().expect("it stops");
    });
    assert_origin_spaced(&origin, 2, Duration::from_millis(1200));
}

#[test]
fn lanes_keep_their_state_over_a_reload() {
    let (origin, proxy) = (asking_for(0.5), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/a")).status(), 200);
    thread::scope(|scope| {
        let held = scope.spawn(|| proxy.get(&origin.url("/b")).status());
        until("it waits", || waiting(&proxy) == 1);
        proxy.change(|settings| settings.pace.concurrency = 2);
        assert_eq!(held.join().expect("no panic"), 200);
    });
    proxy.change(|settings| settings.pace.delay = Duration::from_millis(100));
    assert_eq!(proxy.get(&origin.url("/c")).status(), 200);
    assert_origin_spaced(&origin, 3, Duration::from_millis(500));
}

#[test]
fn a_robots_txt_is_not_asked_for_while_the_site_rests() {
    let busy = answer(429, "Retry-After: 3600\r\n", "");
    let robots = ok_with("Cache-Control: max-age=300\r\n", "User-agent: *\nAllow: /\n");
    let origin =
        Origin::start().on("/robots.txt", robots).on("/busy", Script::default().send(busy));
    let proxy = Proxy::with(|settings| {
        settings.robots.fetch_timeout = Duration::from_millis(500);
    });
    assert_eq!(proxy.get(&origin.url("/busy")).status(), 429);
    proxy.clock.advance(Duration::from_secs(6 * 60));
    let held = proxy.get(&origin.url("/page"));
    held.assert_error(429, "destination_unavailable");
    assert_eq!(held.json()["type"], "http://courtesy.internal/problems/origin-held");
    assert_eq!((origin.count("/robots.txt"), origin.count("/page")), (1, 0));
    assert!(proxy.records().is_empty(), "it is no denial");
}
