//! When requests reach an origin, by the origin's own clock.

use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use courtesy::audit::evidence::{BlobStore, Found, Kind};
use courtesy::audit::read::Log;
use courtesy::audit::read::verify::verify;
use courtesy::config::{Exemption, HttpsMode, OriginRule};
use courtesy::pace::PaceMode;
use courtesy::policy::exemption::{OriginPattern, Paths};
use courtesy::policy::profile::{Obedience, Profile, ProfileName};
use courtesy::runtime::clock::monotonic;
use courtesy::types::origin::split_url;

use serde_json::{Value, json};

use crate::testkit::parties::{
    Client, NOW, Origin, Parent, Proxy, Script, Speaks, answer, ok, until,
};
use crate::testkit::spacing::{self, LATENESS, RESOLUTION};

const DELAY: Duration = Duration::from_millis(500);

const HALF_A_SECOND: &str = "User-agent: *\nCrawl-delay: 0.5\nDisallow: /private/\n";
const TEN_SECONDS: &str = "User-agent: *\nCrawl-delay: 10\n";
const TWO_SECONDS: &str = "User-agent: *\nCrawl-delay: 2\n";

/// Asserts that `count` pages were requested, a delay apart, and that no second delay was added.
#[track_caller]
fn assert_spaced(origin: &Origin, count: usize, delay: Duration) {
    spacing::assert_origin_spaced(origin, count, delay);
    let arrivals = origin.arrivals();
    let length = arrivals[count - 1] - arrivals[0];
    let most = 2 * delay * u32::try_from(count - 1).expect("few") + LATENESS;
    assert!(length < most, "{length:?}");
}

#[test]
fn eight_clients_on_kept_connections_start_a_delay_apart() {
    let (origin, proxy) = (Origin::with_robots(HALF_A_SECOND), Proxy::start());
    thread::scope(|scope| {
        for number in 0..8 {
            let (origin, proxy) = (&origin, &proxy);
            scope.spawn(move || {
                let mut client = proxy.client();
                let response = client.get(&origin.url(&format!("/{number}")));
                assert_eq!(response.status(), 200, "{}", response.text());
            });
        }
    });
    assert_spaced(&origin, 8, DELAY);
}

#[test]
fn origins_that_close_each_connection_are_requested_a_delay_apart() {
    let origin = Origin::with_robots(HALF_A_SECOND)
        .on("/", Script::default().send(answer(200, "Connection: close\r\n", "")).close());
    let proxy = Proxy::start();
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(proxy.get(&origin.url("/")).status(), 200));
        }
    });
    assert_spaced(&origin, 6, DELAY);
}

#[test]
fn requests_inside_connects_of_both_versions_start_a_delay_apart() {
    let origin = Origin::secure().robots(HALF_A_SECOND);
    let proxy = Proxy::before(&[&origin], |_| {});
    let authority = origin.authority();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let url = format!("https://{authority}/one");
                let mut client = proxy.https(&authority);
                client.ask("GET", &url, "");
                assert_eq!(client.read().status(), 200);
            });
        }
        scope.spawn(|| {
            let client = proxy.h2(&authority);
            let streams: Vec<_> =
                (0..4).map(|_| client.ask(client.request("GET", "/two"))).collect();
            for stream in streams {
                assert_eq!(client.answer(stream).status, 200);
            }
        });
    });
    assert_spaced(&origin, 7, DELAY);
}

/// The origins of one host at a parent that reaches them: plain and secure, on their default ports.
fn both_schemes(plain: &Origin, secure: &Origin) -> (Parent, Proxy) {
    let parent = Parent::start(Speaks::Http);
    parent.leads(80, plain.address().port());
    parent.leads(443, secure.address().port());
    let proxy = Proxy::before(&[secure], |settings| {
        settings.egress.parent = Some(parent.url().parse().expect("a parent"));
    });
    (parent, proxy)
}

#[test]
fn both_schemes_of_a_host_are_one_lane_and_their_rules_stay_apart() {
    let plain = Origin::with_robots(HALF_A_SECOND);
    let secure = Origin::secure().robots("User-agent: *\nCrawl-delay: 0.3\nDisallow: /other/\n");
    let (_parent, proxy) = both_schemes(&plain, &secure);
    let begun = monotonic();
    thread::scope(|scope| {
        for number in 0..3 {
            let proxy = &proxy;
            scope.spawn(move || {
                assert_eq!(proxy.get(&format!("http://localhost/{number}")).status(), 200);
            });
            scope.spawn(move || {
                let url = format!("https://localhost/{number}");
                assert_eq!(proxy.https("localhost:443").get(&url).status(), 200);
            });
        }
    });
    let mut arrivals = [plain.arrivals(), secure.arrivals()].concat();
    arrivals.sort_unstable();
    assert_eq!(arrivals.len(), 6);
    // The longer delay while both are in use, and never less than that of the one that has started.
    spacing::assert_spaced(begun, &arrivals, Duration::from_millis(300));
    for (url, status) in [("http://localhost/private/", 403), ("http://localhost/other/", 200)] {
        assert_eq!(proxy.get(url).status(), status, "{url}");
    }
    let mut inside = proxy.https("localhost:443");
    assert_eq!(inside.get("https://localhost/private/").status(), 200);
    assert_eq!(inside.get("https://localhost/other/").status(), 403);
}

#[test]
fn a_rest_of_one_scheme_is_that_of_the_other_and_not_of_other_ports() {
    let busy = answer(429, "Retry-After: 30\r\n", "");
    let secure = Origin::secure().on("/busy", Script::default().send(busy));
    let (plain, beside) = (Origin::start(), Origin::start());
    let (_parent, proxy) = both_schemes(&plain, &secure);
    let known = proxy.get("http://localhost/");
    assert_eq!(known.status(), 200, "{}", known.text());
    assert_eq!(proxy.https("localhost:443").get("https://localhost/busy").status(), 429);
    let held = proxy.exchange("GET", "http://localhost/", "Prefer: wait=1\r\n");
    held.assert_error(429, "destination_unavailable");
    let url = format!("http://localhost:{}/", beside.address().port());
    assert_eq!(proxy.exchange("GET", &url, "Prefer: wait=1\r\n").status(), 200);
    // It outlives the process, whichever scheme is asked for first.
    let parent = _parent.url();
    let authority = secure.address().port();
    let proxy = proxy.restart(|settings| {
        settings.egress.parent = Some(parent.parse().expect("a parent"));
        settings.egress.connect_ports.push(authority);
    });
    let held = proxy.exchange("GET", "http://localhost/", "Prefer: wait=1\r\n");
    held.assert_error(429, "destination_unavailable");
}

#[test]
fn a_request_that_is_sent_again_starts_again() {
    // The second request on the kept connection finds it closed.
    let origin = Origin::with_robots(HALF_A_SECOND)
        .on("/second", Script::default().close())
        .then("/second", ok("at last"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/first")).status(), 200);
    assert_eq!(client.get(&origin.url("/second")).status(), 200);
    assert_spaced(&origin, 3, DELAY);
}

#[test]
fn tunnels_to_an_origin_open_a_delay_apart() {
    let origin = Origin::secure().robots(HALF_A_SECOND.split("Disallow").next().unwrap());
    let proxy = Proxy::before(&[&origin], |settings| {
        settings.https.mode = HttpsMode::Classify;
    });
    let authority = origin.authority();
    let begun = monotonic();
    for _ in 0..3 {
        drop(proxy.client().tunnel(&authority));
    }
    assert!(begun.elapsed() + RESOLUTION >= 2 * DELAY);
}

#[test]
fn a_response_names_how_long_it_waited_and_why() {
    let (origin, proxy) = (Origin::with_robots(HALF_A_SECOND), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/a")).field("courtesy-waited"), None);
    let waited = proxy.get(&origin.url("/b")).field("courtesy-waited").map(str::to_owned);
    let waited = waited.expect("it waited");
    let (seconds, why) = waited.split_once(';').expect("a reason");
    assert_eq!(why, "by=crawl_delay;line=2");
    assert!((0.3..0.9).contains(&seconds.parse().unwrap()), "{seconds}");
}

#[test]
fn p4_an_origin_cannot_say_how_long_a_request_waited() {
    let forged = answer(200, "Courtesy-Waited: 99;by=delay\r\n", "");
    let origin = Origin::start().on("/", Script::default().send(forged));
    assert_eq!(Proxy::start().get(&origin.url("/")).field("courtesy-waited"), None);
}

#[test]
fn a_request_that_would_wait_too_long_learns_when_to_come_back() {
    let origin = Origin::with_robots(TEN_SECONDS);
    let proxy = Proxy::with(|settings| settings.pace.max_wait = Duration::from_secs(2));
    assert_eq!(proxy.get(&origin.url("/a")).status(), 200);
    let refused = proxy.get(&origin.url("/b"));
    refused.assert_error(429, "http_request_error");
    assert_eq!(refused.json()["type"], "http://courtesy.internal/problems/paced");
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    let after: u64 = refused.field("retry-after").expect("a time").parse().expect("seconds");
    assert!((9..=10).contains(&after), "{after}");
    assert!(proxy.records().is_empty(), "it is no denial");

    proxy.change(|settings| settings.pace.status = http::StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(proxy.get(&origin.url("/b")).status(), 503);
    let impatient = proxy.exchange("GET", &origin.url("/b"), "Prefer: wait=0\r\n");
    assert_eq!(impatient.status(), 503);
    assert_eq!(origin.arrivals().len(), 1);
}

#[test]
fn a_refusal_names_the_delay_that_the_site_asks_for_or_the_exemption() {
    let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 3600\n");
    let detail = |proxy: &Proxy| {
        let refused = proxy.get(&origin.url("/"));
        refused.assert_error(429, "http_request_error");
        refused.json()["detail"].as_str().expect("a text").to_owned()
    };
    // Beyond the default of pace.max_wait, also where less than an hour is kept.
    for bound in [None, Some(Duration::from_secs(1800))] {
        let proxy = Proxy::with(|settings| {
            settings.pace.max_crawl_delay = bound.unwrap_or(settings.pace.max_crawl_delay);
        });
        assert_eq!(proxy.get(&origin.url("/")).status(), 200);
        let detail = detail(&proxy);
        assert!(
            detail.contains("asks for 3600s between two requests (Crawl-delay, line 2)"),
            "{detail}"
        );
    }
    let proxy = Proxy::with(|settings| {
        settings.exemptions.push(Exemption {
            origin: OriginPattern::parse(&origin.url("")).unwrap(),
            paths: Paths::default(),
            agents: Vec::new(),
            by: "Jane Doe".into(),
            reason: "contract".into(),
            ticket: None,
            until: NOW.plus(Duration::from_secs(60)),
            crawl_delay: Some(Duration::from_secs(1200)),
        });
    });
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    let detail = detail(&proxy);
    assert!(detail.starts_with("requests are 1200s apart by exemption of Jane Doe"), "{detail}");
}

#[test]
fn a_client_that_leaves_before_its_turn_costs_no_start() {
    const DELAY: Duration = Duration::from_millis(1200);
    let robots = "User-agent: *\nCrawl-delay: 1.2\n";
    let (plain, secure) = (Origin::with_robots(robots), Origin::secure().robots(robots));
    let proxy = Proxy::before(&[&secure], |_| {});
    // Over HTTP/1.1, in clear and inside a CONNECT: each ends its side of the connection, as a
    // program does whose time is over, too late for any but a look immediately before the start.
    let authority = secure.authority();
    let clients: [(&Origin, &dyn Fn() -> Client); 2] =
        [(&plain, &|| proxy.client()), (&secure, &|| proxy.https(&authority))];
    for (origin, connect) in clients {
        assert_eq!(connect().get(&origin.url("/first")).status(), 200);
        // On a busy machine it may leave too late, which shows nothing.
        while !leaves_in_time(&proxy, origin, connect, DELAY) {}
        spacing::assert_origin_spaced(origin, origin.arrivals().len(), DELAY);
        // One that ends its side and listens on still has its response (RFC 9112 §9.6).
        let mut listens = connect();
        listens.ask("GET", &origin.url("/half"), "");
        listens.finish_sending();
        assert_eq!(read_final(&mut listens), 200);
    }
}

/// Whether a client that leaves did so before its turn; then it has cost no start.
fn leaves_in_time(
    proxy: &Proxy,
    origin: &Origin,
    connect: &dyn Fn() -> Client,
    delay: Duration,
) -> bool {
    let (before, last) = (origin.count("/left"), *origin.arrivals().last().expect("one"));
    let mut leaves = connect();
    leaves.ask("GET", &origin.url("/left"), "");
    let mut stays = connect();
    stays.ask("GET", &origin.url("/last"), "");
    until("they wait, or it is late", || {
        let metrics = proxy.admin("/metrics").text();
        metrics.contains("courtesy_pace_waiting 2\n") || monotonic() > last + delay / 2
    });
    drop(leaves);
    let is_in_time = monotonic() < last + delay - LATENESS;
    assert_eq!(read_final(&mut stays), 200);
    let is_sent = origin.count("/left") > before;
    assert!(!is_sent || !is_in_time, "a turn was spent on a client that had left");
    is_in_time
}

fn read_final(client: &mut Client) -> u16 {
    loop {
        match client.read_head().status() {
            100..=199 => {}
            status => return status,
        }
    }
}

#[test]
fn nothing_starts_while_an_origin_asks_for_rest() {
    let busy = answer(429, "Retry-After: 2\r\n", "enough");
    let origin = Origin::start().on("/busy", Script::default().send(busy));
    let proxy = Proxy::start();
    let response = proxy.get(&origin.url("/busy"));
    assert_eq!((response.status(), response.text().as_str()), (429, "enough"));
    let held = proxy.exchange("GET", &origin.url("/a"), "Prefer: wait=1\r\n");
    held.assert_error(429, "destination_unavailable");
    assert_eq!(held.json()["type"], "http://courtesy.internal/problems/origin-held");
    assert_eq!(held.field("retry-after"), Some("2"));
    thread::scope(|scope| {
        for path in ["/b", "/c", "/d"] {
            let url = origin.url(path);
            scope.spawn(|| assert_eq!(proxy.get(&{ url }).status(), 200));
        }
    });
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.len(), 4);
    // The origin notes a request before it answers.
    assert!(arrivals[1] - arrivals[0] + RESOLUTION >= Duration::from_secs(2));
}

#[test]
fn a_client_that_leaves_costs_nothing() {
    let (origin, proxy) = (Origin::with_robots(HALF_A_SECOND), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/first")).status(), 200);
    let leaving: Vec<_> = (0..30)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &origin.url(&format!("/left/{number}")), "");
            client
        })
        .collect();
    until("all wait", || {
        let page = proxy.admin("/metrics").text();
        page.contains("courtesy_pace_waiting 30")
    });
    for client in leaving {
        client.reset();
    }
    until("they are gone", || proxy.admin("/metrics").text().contains("courtesy_pace_waiting 0"));
    let before = origin.arrivals().len();
    assert_eq!(proxy.get(&origin.url("/last")).status(), 200);
    let after = origin.arrivals();
    assert!(after.len() == before + 1 && before < 5, "{before}");
    assert!(after[before] - after[before - 1] < 2 * DELAY, "the next turn is the polite one's");
}

#[test]
fn eight_requests_are_under_way_to_an_origin_and_seven_of_one_client() {
    let late = Script::default().hold().send(answer(200, "", "late"));
    let origin = Origin::start().on("/late", late);
    let proxy = Proxy::start();
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert_eq!(proxy.get(&origin.url("/late")).status(), 200));
        }
        until("the others wait", || {
            proxy.admin("/metrics").text().contains("courtesy_pace_waiting 13")
        });
        origin.wait_until("seven are there", |log| {
            log.requests.iter().filter(|it| it.path() == "/late").count() == 7
        });
        origin.release();
    });
    assert_eq!(origin.count("/late"), 20);
}

#[test]
fn what_was_decided_before_a_wait_is_decided_again() {
    let origin = Origin::start()
        .on("/robots.txt", ok(TWO_SECONDS))
        .then("/robots.txt", ok("User-agent: *\nDisallow: /\n"));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/a")).status(), 200);
    thread::scope(|scope| {
        let second = scope.spawn(|| proxy.get(&origin.url("/b")).status());
        until("it waits", || proxy.admin("/metrics").text().contains("courtesy_pace_waiting 1"));
        proxy.clock.advance(Duration::from_secs(25 * 60 * 60));
        assert_eq!(second.join().expect("no panic"), 403);
    });
    assert_eq!(proxy.record()["event"], "denied");
    assert_eq!(origin.arrivals().len(), 1);
}

#[test]
fn a_mode_can_be_to_observe_or_off() {
    let origin = Origin::with_robots(TEN_SECONDS);
    for mode in [PaceMode::Observe, PaceMode::Off] {
        let proxy = Proxy::with(|settings| settings.pace.mode = Some(mode));
        for path in ["/a", "/b", "/c"] {
            let response = proxy.get(&origin.url(path));
            assert_eq!((response.status(), response.field("courtesy-waited")), (200, None));
        }
        let count = if mode == PaceMode::Observe { 2 } else { 0 };
        let page = proxy.admin("/metrics").text();
        let line = format!("courtesy_pace_would_wait_seconds_count{{mode=\"observe\"}} {count}\n");
        assert!(page.contains(&line), "{page}");
    }
}

#[test]
fn the_settings_of_an_agent_and_of_an_origin_apply() {
    let origin = Origin::with_robots(TEN_SECONDS);
    let proxy = Proxy::with(|settings| {
        let rule = OriginRule {
            delay: Some(Duration::from_millis(300)),
            pace: Some(PaceMode::Observe),
            ..OriginRule::of(split_url(origin.url("/").as_bytes()).expect("a URL").0)
        };
        settings.origins = vec![rule];
    });
    for _ in 0..3 {
        assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    }
    proxy.change(|settings| {
        settings.origins[0].pace = Some(PaceMode::Enforce);
        // It ignores Crawl-delay.
        settings.robots.profile = ProfileName::Google;
    });
    let changed = monotonic();
    for _ in 0..4 {
        assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    }
    let arrivals = &origin.arrivals()[3..];
    spacing::assert_spaced(changed, arrivals, Duration::from_millis(300));
}

/// A site that asks for two seconds, and its page.
fn site(page: Vec<u8>) -> Origin {
    Origin::with_robots(TWO_SECONDS).on("/", Script::default().send(page))
}

fn html() -> Vec<u8> {
    answer(200, "Content-Type: text/html\r\n", "<!doctype html>")
}

#[test]
fn what_a_browser_loads_for_a_document_has_no_delay() {
    let (origin, proxy) = (site(html()), Proxy::start());
    let begun = monotonic();
    let ask = |path: &str, dest: &str| {
        let field = format!("Sec-Fetch-Dest: {dest}\r\n");
        assert_eq!(proxy.exchange("GET", &origin.url(path), &field).status(), 200);
    };
    ask("/", "document");
    for number in 0..40 {
        ask(&format!("/{number}.png"), "image");
    }
    ask("/next", "document");
    let arrivals = origin.arrivals();
    assert!(arrivals[40] - arrivals[0] < Duration::from_secs(60), "a delay apart it is 80 s");
    assert!(arrivals[41] - begun + RESOLUTION >= Duration::from_secs(2));
}

/// A document that is none, or that was asked for elsewhere, brings no request without a delay.
#[test]
fn p7_who_only_says_that_it_is_a_browser_is_paced() {
    for (name, page, is_elsewhere) in [
        ("no document was asked for", None, false),
        ("it is missing", Some(answer(404, "Content-Type: text/html\r\n", "")), false),
        ("it is a redirect", Some(answer(302, "Location: /a\r\n", "")), false),
        ("it is a picture", Some(answer(200, "Content-Type: image/png\r\n", "")), false),
        ("it is of no known type", Some(answer(200, "", "")), false),
        ("it is that of another site", Some(html()), true),
    ] {
        let script = Script::default().send(page.clone().unwrap_or_else(html));
        let origin = Origin::with_robots(TEN_SECONDS).on("/", script);
        let victim = Origin::with_robots(TEN_SECONDS);
        let proxy = Proxy::start();
        if page.is_some() {
            proxy.exchange("GET", &origin.url("/"), "Sec-Fetch-Dest: document\r\n");
        }
        let at = if is_elsewhere { &victim } else { &origin };
        let ask = |path: &str| {
            let fields = "Sec-Fetch-Dest: image\r\nPrefer: wait=0\r\n";
            proxy.exchange("GET", &at.url(path), fields).status()
        };
        // The first takes a start, where none has been.
        let first = ask("/0.png");
        assert_eq!(first, if page.is_none() || is_elsewhere { 200 } else { 429 }, "{name}");
        if !is_elsewhere {
            assert_eq!(ask("/1.png"), 429, "{name}");
        }
    }
}

#[test]
fn p7_at_another_origin_a_visit_waits_for_one_start() {
    let (origin, cdn, proxy) = (site(html()), Origin::with_robots(TWO_SECONDS), Proxy::start());
    let begun = monotonic();
    assert_eq!(proxy.get(&cdn.url("/before")).status(), 200);
    proxy.exchange("GET", &origin.url("/"), "Sec-Fetch-Dest: document\r\n");
    let fields = format!("Sec-Fetch-Dest: image\r\nReferer: {}\r\n", origin.url("/"));
    thread::scope(|scope| {
        for number in 0..10 {
            let (proxy, cdn, fields) = (&proxy, &cdn, &fields);
            scope.spawn(move || {
                let answer = proxy.exchange("GET", &cdn.url(&format!("/{number}.png")), fields);
                assert_eq!(answer.status(), 200);
                if let Some(waited) = answer.field("courtesy-waited") {
                    assert!(waited.contains("by=crawl_delay"), "{waited}");
                }
            });
        }
    });
    let arrivals = cdn.arrivals();
    assert_eq!(arrivals.len(), 11);
    assert!(arrivals[1] - begun + RESOLUTION >= Duration::from_secs(2));
    assert!(arrivals[10] - arrivals[1] < Duration::from_secs(18), "the others are of its start");
}

#[test]
fn p5_a_clean_restart_keeps_the_delay() {
    let (origin, proxy) = (Origin::with_robots(TWO_SECONDS), Proxy::start());
    assert_eq!(proxy.get(&origin.url("/a")).status(), 200);
    let proxy = proxy.restart(|_| {});
    assert_eq!(proxy.get(&origin.url("/b")).status(), 200);
    assert_spaced(&origin, 2, Duration::from_secs(2));
}

#[test]
fn p2_a_client_cannot_fill_the_queue_of_an_origin_for_the_others() {
    let origin = Origin::with_robots(HALF_A_SECOND);
    let proxy = Proxy::with(|settings| settings.pace.max_waiting_per_origin = 8);
    assert_eq!(proxy.get(&origin.url("/first")).status(), 200);
    thread::scope(|scope| {
        let ask = || proxy.get(&origin.url("/many")).status();
        let greedy: Vec<_> = (0..12).map(|_| scope.spawn(ask)).collect();
        until("its room is full", || {
            proxy
                .admin("/metrics")
                .text()
                .contains("courtesy_pace_refusals_total{reason=\"full\"} ")
                && greedy.iter().filter(|thread| thread.is_finished()).count() >= 4
        });
        let mut polite = Client::connect_from(Ipv4Addr::new(127, 0, 0, 2), proxy.address());
        assert_eq!(polite.get(&origin.url("/polite")).status(), 200);
        let statuses: Vec<_> =
            greedy.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(statuses.iter().filter(|status| **status == 503).count() >= 4, "{statuses:?}");
    });
    let log = origin.log();
    let place = |path: &str| log.requests.iter().position(|it| it.path() == path);
    let before = place("/polite").expect("it came") - place("/first").expect("it came");
    assert!(before <= 4, "the polite client waited for {before} turns");
}

/// The notices of that event.
fn notices(proxy: &Proxy, event: &str) -> Vec<Value> {
    proxy.lines().into_iter().filter(|line| line["event"] == event).collect()
}

#[test]
fn a_delay_that_is_asked_for_is_recorded_once_with_its_line_and_file() {
    let robots = "# pace\r\nUser-agent: *\r\n  Crawl-delay: 1 # gently\r\n";
    let (origin, mut proxy) = (Origin::with_robots(robots), Proxy::start());
    // At once: a slow machine may let a second pass between two that follow each other.
    thread::scope(|scope| {
        for number in 0..3 {
            let (proxy, url) = (&proxy, origin.url(&format!("/{number}")));
            scope.spawn(move || assert_eq!(proxy.get(&url).status(), 200));
        }
    });
    until("the delay is recorded", || notices(&proxy, "paced").len() == 1);
    proxy.stop();
    let paced = notices(&proxy, "paced");
    assert_eq!(paced.len(), 1);
    let line = json!({
        "clamped": false, "delay_ms": 1000, "group": {"line": 2, "token": "*"}, "line": 3,
        "source": "crawl_delay", "text": "Crawl-delay: 1 # gently",
    });
    for (name, value) in line.as_object().unwrap() {
        assert_eq!(paced[0][name], *value, "{name}");
    }
    let verified = verify(&Log::Dir(proxy.audit_dir()), &[], true, &mut |_, _| {}).unwrap();
    assert_eq!((verified.faults.count, verified.notices.paced), (0, 1), "{:#?}", verified.faults);
    let sha256 = paced[0]["robots"]["sha256"].as_str().unwrap();
    let file = BlobStore::of(&proxy.audit_dir()).get(Kind::File, sha256).unwrap();
    assert!(matches!(file, Found::Content(content) if content == robots.as_bytes()));
    let totals = &notices(&proxy, "totals")[0];
    assert_eq!(totals["paced"], 2);
    assert!(totals["waited_ms"].as_u64().unwrap() >= 1, "{totals}");
    assert_eq!(totals["resting"], Value::Null);
}

#[test]
fn a_delay_is_not_recorded_where_no_pace_is_kept() {
    let origin = Origin::with_robots(TEN_SECONDS);
    let mut proxy = Proxy::with(|settings| settings.pace.mode = Some(PaceMode::Off));
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    proxy.stop();
    assert_eq!(notices(&proxy, "paced"), Vec::<Value>::new());
}

#[test]
fn a_request_that_goes_faster_than_asked_is_recorded_with_its_exemption() {
    let origin = Origin::with_robots(TEN_SECONDS);
    let mut proxy = Proxy::with(|settings| {
        settings.exemptions.push(Exemption {
            origin: OriginPattern::parse(&origin.url("")).unwrap(),
            paths: Paths::default(),
            agents: Vec::new(),
            by: "legal".into(),
            reason: "contract".into(),
            ticket: None,
            until: NOW.plus(Duration::from_secs(60)),
            crawl_delay: Some(Duration::ZERO),
        });
    });
    for _ in 0..2 {
        assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    }
    proxy.stop();
    let paced = &notices(&proxy, "paced")[0];
    assert_eq!((&paced["delay_ms"], &paced["exemption"]["by"]), (&0.into(), &"legal".into()));
    assert_eq!(
        (&paced["text"], &paced["exemption"]["why"]),
        (&"Crawl-delay: 10".into(), &"contract".into())
    );
}

#[test]
fn p1_what_a_site_asks_for_is_kept_up_to_a_bound() {
    let without_bound = format!("{:019}", u64::MAX / 2);
    let origin = Origin::with_robots(&format!("User-agent: *\nCrawl-delay: {without_bound}\n"));
    let busy = answer(429, &format!("Retry-After: {without_bound}\r\n"), "");
    let other = Origin::start().on("/busy", Script::default().send(busy));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    assert_eq!(proxy.get(&other.url("/busy")).status(), 429);
    for (url, bound) in [(origin.url("/"), 24 * 60 * 60), (other.url("/"), 60 * 60)] {
        let refused = proxy.exchange("GET", &url, "Prefer: wait=0\r\n");
        let after: u64 = refused.field("retry-after").expect("a time").parse().expect("seconds");
        assert!((bound - 15..=bound).contains(&after), "{after} of {bound}");
    }
    let metrics = proxy.admin("/metrics").text();
    assert!(metrics.contains("\ncourtesy_pace_clamped_total 2\n"), "{metrics}");
}

#[test]
fn a_day_between_two_requests_is_kept_under_every_profile() {
    for row in Profile::ALL {
        let name = row.name;
        let origin = Origin::with_robots("User-agent: *\nCrawl-delay: 86400\n");
        let proxy = Proxy::with(|settings| settings.robots.profile = name.parse().expect("a name"));
        assert_eq!(proxy.get(&origin.url("/")).status(), 200, "{name}");
        let next = proxy.get(&origin.url("/"));
        if row.pace.crawl_delay == Obedience::Obey {
            let after: u64 = next.field("retry-after").expect("a time").parse().expect("seconds");
            assert!((86_385..=86_400).contains(&after), "{name}: {after}");
        } else {
            assert_eq!(next.status(), 200, "{name}");
        }
    }
}

#[test]
fn p3_an_origin_that_is_held_delays_no_other() {
    let held =
        Origin::start().on("/", Script::default().send(answer(503, "Retry-After: 60\r\n", "")));
    let slow = Origin::with_robots("User-agent: *\nCrawl-delay: 60\n");
    let (other, proxy) = (Origin::start().on("/", ok("")), Proxy::start());
    let (proxy, held, slow) = (&proxy, &held, &slow);
    assert_eq!(proxy.get(&held.url("/")).status(), 503);
    assert_eq!(proxy.get(&slow.url("/")).status(), 200);
    let mut waiting = Vec::new();
    for number in 0..20 {
        let origin = if number % 2 == 0 { held } else { slow };
        let mut client = proxy.client();
        client.ask("GET", &origin.url("/"), "");
        waiting.push(client);
    }
    until("they wait", || {
        let metrics = proxy.admin("/metrics").text();
        let waiting = metrics.lines().find_map(|line| line.strip_prefix("courtesy_pace_waiting "));
        waiting.is_some_and(|count| count.parse::<usize>().unwrap() >= 11)
    });
    let begun = monotonic();
    for _ in 0..50 {
        let response = proxy.get(&other.url("/"));
        assert_eq!((response.status(), response.field("courtesy-waited")), (200, None));
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Passes connections on to `origin`, each second one only after the time of a slow handshake, until `end`.
pub fn relay<'s>(
    scope: &'s thread::Scope<'s, '_>,
    listener: &'s TcpListener,
    origin: SocketAddr,
    end: &'s AtomicBool,
) {
    let slow = Duration::from_millis(400);
    scope.spawn(move || {
        for (number, near) in listener.incoming().enumerate() {
            if end.load(Ordering::SeqCst) {
                return;
            }
            let (near, far) = (near.expect("a connection"), TcpStream::connect(origin).unwrap());
            let (from_near, from_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            scope.spawn(move || {
                let begun = monotonic();
                while number % 2 == 0 && begun.elapsed() < slow {
                    thread::park_timeout(slow);
                }
                let _ = std::io::copy(&mut &from_near, &mut &far);
                let _ = far.shutdown(Shutdown::Write);
            });
            scope.spawn(move || {
                let _ = std::io::copy(&mut &from_far, &mut &near);
                let _ = near.shutdown(Shutdown::Both);
            });
        }
    });
}

#[test]
fn slow_handshakes_beside_fast_ones_let_no_request_start_early() {
    let origin = Origin::secure()
        .robots(HALF_A_SECOND)
        .on("/", Script::default().send(answer(200, "Connection: close\r\n", "")).close());
    let (listener, end) =
        (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), AtomicBool::new(false));
    let address = listener.local_addr().unwrap();
    thread::scope(|scope| {
        relay(scope, &listener, origin.address(), &end);
        let proxy = Proxy::before(&[&origin], |settings| {
            settings.egress.connect_ports.push(address.port());
        });
        let authority = address.to_string();
        thread::scope(|crawlers| {
            for _ in 0..8 {
                crawlers.spawn(|| {
                    let mut client = proxy.https(&authority);
                    assert_eq!(client.get(&format!("https://{authority}/")).status(), 200);
                });
            }
        });
        end.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(address));
    });
    spacing::assert_origin_spaced(&origin, 8, DELAY);
}
