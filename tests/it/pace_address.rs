//! When requests reach the origins of one address, by the origins' own clocks.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use courtesy::config::{HttpsMode, Settings};
use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Client, H2, Origin, Proxy, Response, Script, answer, ok, until};
use crate::testkit::spacing::{self, LATENESS, RESOLUTION};

const DELAY: Duration = Duration::from_millis(300);

fn spaced(settings: &mut Settings) {
    settings.pace.address_delay = DELAY;
}

/// When pages were requested of these origins, in order.
fn arrivals(origins: &[&Origin]) -> Vec<Instant> {
    let pages = |origin: &&Origin| {
        let log = origin.log();
        let pages = log.requests.iter().filter(|it| !["/robots.txt", "/warm"].contains(&it.path()));
        pages.map(|it| it.at).collect::<Vec<_>>()
    };
    let mut arrivals: Vec<_> = origins.iter().flat_map(pages).collect();
    arrivals.sort();
    arrivals
}

/// Asserts that `count` pages were requested since `begin`, a delay apart, and that no second delay
/// was added.
#[track_caller]
fn assert_spaced(begin: Instant, arrivals: &[Instant], count: usize) {
    assert_eq!(arrivals.len(), count);
    spacing::assert_spaced(begin, arrivals, DELAY);
    let length = arrivals[count - 1] - arrivals[0];
    let most = 2 * DELAY * u32::try_from(count - 1).expect("few") + LATENESS;
    assert!(length < most, "{length:?}");
}

/// Why the request waited; `None`: it did not.
fn by(response: &Response) -> Option<String> {
    let waited = response.field("courtesy-waited")?;
    Some(waited.split_once(";by=").expect("a reason").1.to_owned())
}

#[test]
fn starts_at_all_origins_of_one_address_are_a_delay_apart() {
    let (one, other) = (Origin::start(), Origin::start());
    let proxy = Proxy::with(spaced);
    let urls = [one.url("/a"), one.named("second", "/b"), other.url("/c"), other.url("/d")];
    let begun = monotonic();
    thread::scope(|scope| {
        for url in urls.iter().chain(&urls) {
            let proxy = &proxy;
            scope.spawn(move || {
                let response = proxy.get(url);
                assert_eq!(response.status(), 200, "{}", response.text());
                assert!(by(&response).is_none_or(|by| by == "address"));
            });
        }
    });
    assert_spaced(begun, &arrivals(&[&one, &other]), 8);
    let page = proxy.admin("/metrics").text();
    let waits = page
        .lines()
        .find(|line| line.starts_with("courtesy_pace_waits_seconds_count{by=\"address\"}"));
    let count: usize = waits.expect("a line").rsplit(' ').next().unwrap().parse().unwrap();
    assert!((7..=8).contains(&count), "{count}");
}

#[test]
fn requests_inside_connects_of_both_versions_start_a_delay_apart() {
    let origins = [Origin::secure(), Origin::secure()];
    let proxy = Proxy::before(&[&origins[0], &origins[1]], |_| {});
    let mut clients = origins.each_ref().map(|origin| {
        let authority = origin.authority();
        (format!("https://{authority}"), proxy.https(&authority), proxy.h2(&authority))
    });
    // Handshakes take their time outside of the measured one.
    ask_at_once(&mut clients, "/warm");
    proxy.change(spaced);
    let begun = monotonic();
    ask_at_once(&mut clients, "/page");
    assert_spaced(begun, &arrivals(&[&origins[0], &origins[1]]), 6);
}

/// Requests `path` three times of each origin: by HTTP/1.1, and twice by HTTP/2.
fn ask_at_once(clients: &mut [(String, Client, H2)], path: &str) {
    thread::scope(|scope| {
        for (origin, http1, http2) in clients {
            let url = format!("{origin}{path}");
            scope.spawn(move || assert_eq!(http1.get(&url).status(), 200));
            scope.spawn(move || {
                let streams: Vec<_> =
                    (0..2).map(|_| http2.ask(http2.request("GET", path))).collect();
                for stream in streams {
                    assert_eq!(http2.answer(stream).status, 200);
                }
            });
        }
    });
}

#[test]
fn tunnels_to_one_address_begin_a_delay_apart() {
    let (one, other) = (Origin::secure(), Origin::secure());
    let proxy = Proxy::before(&[&one, &other], |settings| {
        spaced(settings);
        settings.https.mode = HttpsMode::Classify;
    });
    let begun = monotonic();
    for origin in [&one, &other, &one, &other] {
        drop(proxy.client().tunnel(&origin.authority()));
    }
    assert!(begun.elapsed() + RESOLUTION >= 3 * DELAY);
}

#[test]
fn addresses_of_shared_networks_are_not_spaced() {
    let origins = [Origin::start(), Origin::start(), Origin::start()];
    let proxy = Proxy::with(|settings| {
        settings.pace.address_delay = Duration::from_secs(60);
        settings.pace.address_concurrency = 1;
        settings.pace.shared_addresses = vec!["127.0.0.0/8".parse().expect("a network")];
    });
    for origin in &origins {
        let response = proxy.get(&origin.url("/"));
        assert_eq!((response.status(), by(&response)), (200, None));
    }
}

#[test]
fn requests_under_way_to_an_address_are_bounded() {
    let late = || Script::default().hold().send(answer(200, "", "late"));
    let origins = [(); 3].map(|()| Origin::start().on("/late", late()));
    let proxy = Proxy::with(|settings| settings.pace.address_concurrency = 2);
    let count = || origins.iter().map(|origin| origin.count("/late")).sum::<usize>();
    thread::scope(|scope| {
        for origin in origins.iter().chain(&origins) {
            scope.spawn(|| assert_eq!(proxy.get(&origin.url("/late")).status(), 200));
        }
        until("the others wait", || {
            proxy.admin("/metrics").text().contains("courtesy_pace_waiting 4\n")
        });
        until("the first have arrived", || count() >= 2);
        assert_eq!(count(), 2);
        origins.iter().for_each(Origin::release);
    });
    assert_eq!(count(), 6);
}

#[test]
fn a_request_that_would_wait_too_long_learns_when_to_come_back() {
    let (one, other) = (Origin::start(), Origin::start());
    let proxy = Proxy::with(|settings| {
        settings.pace.address_delay = Duration::from_secs(10);
        settings.pace.max_wait = Duration::from_secs(12);
    });
    // The start of the proxy counts as one.
    proxy.change(|settings| settings.pace.address_delay = Duration::from_millis(1));
    until("the first start is over", || proxy.get(&one.url("/a")).status() == 200);
    proxy.change(|settings| {
        settings.pace.address_delay = Duration::from_secs(10);
        settings.pace.max_wait = Duration::from_secs(2);
    });
    assert_eq!(proxy.get(&one.url("/b")).status(), 200);
    for _ in 0..8 {
        let refused = proxy.get(&other.url("/c"));
        refused.assert_error(429, "http_request_error");
        assert_eq!(refused.json()["type"], "http://courtesy.internal/problems/paced");
        assert!(refused.text().contains("pace.address_delay"), "{}", refused.text());
        let after: u64 = refused.field("retry-after").expect("a time").parse().expect("seconds");
        assert!((8..=10).contains(&after), "{after}");
    }
    proxy.change(|settings| settings.pace.status = http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(proxy.get(&other.url("/c")).status(), 503);
    assert!(proxy.records().is_empty(), "it is no denial");
    assert_eq!((arrivals(&[&one]).len(), arrivals(&[&other]).len()), (2, 0));
    assert!(other.log().connections <= 3, "the fetch's, and one that each worker keeps");
}

#[test]
fn a_reload_changes_the_limits() {
    let (one, other) = (Origin::start(), Origin::start());
    let proxy = Proxy::start();
    let ask = || [&one, &other].map(|origin| by(&proxy.get(&origin.url("/"))));
    assert_eq!(ask(), [None, None]);
    proxy.change(spaced);
    ask();
    assert_eq!(ask(), [Some("address".into()), Some("address".into())]);
    proxy.change(|settings| settings.pace.address_delay = Duration::ZERO);
    assert_eq!(ask(), [None, None]);
}

#[test]
fn what_was_decided_before_a_wait_is_decided_again() {
    let (one, other) = (
        Origin::start(),
        Origin::start()
            .on("/robots.txt", ok(""))
            .then("/robots.txt", ok("User-agent: *\nDisallow: /\n")),
    );
    let proxy = Proxy::with(|settings| settings.pace.address_delay = Duration::from_secs(2));
    assert_eq!(proxy.get(&one.url("/a")).status(), 200);
    thread::scope(|scope| {
        let second = scope.spawn(|| proxy.get(&other.url("/b")).status());
        until("it waits", || proxy.admin("/metrics").text().contains("courtesy_pace_waiting 1\n"));
        proxy.clock.advance(Duration::from_secs(25 * 60 * 60));
        assert_eq!(second.join().expect("no panic"), 403);
    });
    assert_eq!(proxy.record()["event"], "denied");
    assert_eq!(arrivals(&[&other]).len(), 0);
}

/// Serves pages on connections that it closes where no request comes for a third of the delay.
fn impatient<'s>(
    scope: &'s thread::Scope<'s, '_>,
    listener: &'s TcpListener,
    end: &'s AtomicBool,
    pages: &'s AtomicUsize,
) {
    scope.spawn(move || {
        for stream in listener.incoming() {
            if end.load(Ordering::SeqCst) {
                return;
            }
            let stream = stream.expect("a connection");
            scope.spawn(move || serve(&stream, pages));
        }
    });
}

fn serve(stream: &TcpStream, pages: &AtomicUsize) {
    stream.set_read_timeout(Some(DELAY / 3)).expect("a time");
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let rest = lines.by_ref().map_while(Result::ok);
        rest.take_while(|line| !line.is_empty()).for_each(drop);
        pages.fetch_add(usize::from(!line.contains("/robots.txt")), Ordering::SeqCst);
        let mut stream = stream;
        stream.write_all(&answer(200, "", "here")).expect("the proxy reads");
    }
}

#[test]
fn a_connection_that_is_closed_while_its_request_waits_is_replaced() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (end, pages) = (AtomicBool::new(false), AtomicUsize::new(0));
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let proxy = Proxy::with(spaced);
    let begun = monotonic();
    thread::scope(|scope| {
        impatient(scope, &listener, &end, &pages);
        let requests: Vec<_> = (0..4)
            .map(|_| {
                let (proxy, url) = (&proxy, &url);
                // One that is not repeated by itself.
                scope.spawn(move || proxy.exchange("POST", url, "Content-Length: 0\r\n"))
            })
            .collect();
        let statuses = requests.into_iter().map(|it| it.join().expect("no panic").status());
        assert_eq!(statuses.collect::<Vec<_>>(), [200; 4]);
        end.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(listener.local_addr().expect("an address")));
    });
    assert_eq!(pages.into_inner(), 4);
    assert!(begun.elapsed() + RESOLUTION >= 3 * DELAY);
}
