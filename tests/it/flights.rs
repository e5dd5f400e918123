//! One fetch of a robots.txt for everybody, and when it is made again.

use std::thread;
use std::time::Duration;

use courtesy::runtime::clock::monotonic;

use crate::testkit::parties::{Origin, Proxy, Script, answer, ok, ok_with, until};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A robots.txt that comes when the origin is released.
fn held(robots_txt: &str) -> Script {
    Script::default().hold().send(answer(200, "", robots_txt))
}

fn failing(fields: &str) -> Script {
    Script::default().send(answer(503, fields, ""))
}

#[test]
fn f8_a_hundred_first_requests_cause_one_fetch() {
    let origin = Origin::start().on("/robots.txt", held("User-agent: *\nDisallow: /7\n"));
    let proxy = Proxy::start();
    thread::scope(|scope| {
        let asking: Vec<_> = (0..100)
            .map(|number| {
                let (origin, proxy) = (&origin, &proxy);
                scope
                    .spawn(move || (number, proxy.get(&origin.url(&format!("/{number}"))).status()))
            })
            .collect();
        until("all wait", || proxy.stats().waiters == 100);
        origin.release();
        let released = monotonic();
        for client in asking {
            let (number, status) = client.join().expect("an answer");
            let is_denied = number == 7 || (70..80).contains(&number);
            assert_eq!(status, if is_denied { 403 } else { 200 }, "/{number}");
        }
        // A tenth of a second on a machine that does nothing else.
        let took = released.elapsed();
        println!("all were answered {took:?} after the file");
        assert!(took < Duration::from_secs(5), "{took:?}");
    });
    assert_eq!(origin.count("/robots.txt"), 1);
    assert_eq!(proxy.stats().fetches, 1);
    assert_eq!(proxy.records().len(), 11);
}

#[test]
fn d7_f9_a_fetch_outlives_the_client_that_caused_it() {
    let origin = Origin::start().on("/robots.txt", held("User-agent: *\nDisallow: /no\n"));
    let proxy = Proxy::start();
    let mut first = proxy.client();
    first.ask("GET", &origin.url("/no"), "");
    origin.wait_until("the fetch is under way", |log| log.requests.len() == 1);
    let mut second = proxy.client();
    second.ask("GET", &origin.url("/second"), "");
    until("both wait", || proxy.stats().waiters == 2);
    drop(first);
    origin.release();
    assert_eq!(second.read().status(), 200);
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /second"]);
}

#[test]
fn f9_a_fetch_outlives_all_who_wait_for_it() {
    let origin = Origin::start().on("/robots.txt", held("User-agent: *\nDisallow: /no\n"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    client.ask("GET", &origin.url("/no"), "");
    origin.wait_until("the fetch is under way", |log| log.requests.len() == 1);
    drop(client);
    origin.release();
    until("the fetch has landed", || proxy.stats().flights == 0);
    assert_eq!(proxy.get(&origin.url("/no")).status(), 403);
    assert_eq!(origin.request_lines(), ["GET /robots.txt"]);
}

#[test]
fn f10_origins_that_stall_delay_no_other() {
    let stalling = Origin::start().on("/robots.txt", held(""));
    let other = Origin::with_robots("User-agent: *\nDisallow: /no\n");
    let proxy = Proxy::start();
    let _waiting: Vec<_> = (0..40)
        .map(|number| {
            let mut client = proxy.client();
            client.ask("GET", &stalling.named(&format!("o{number}"), "/"), "");
            client
        })
        .collect();
    stalling.wait_until("all stall", |log| log.requests.len() == 40);
    let begin = monotonic();
    for _ in 0..4 {
        assert_eq!(proxy.get(&other.url("/")).status(), 200);
    }
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(proxy.stats().waiters, 40);
    stalling.release();
}

#[test]
fn near_the_end_of_its_time_the_copy_serves_while_a_new_one_is_fetched() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /old\n")
        .then("/robots.txt", held("User-agent: *\nDisallow: /new\n"));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    assert_eq!(client.get(&origin.url("/old")).status(), 403);
    proxy.clock.advance(20 * HOUR);
    assert_eq!(client.get(&origin.url("/new")).status(), 200, "fresh");
    assert_eq!(proxy.stats().fetches, 1);
    proxy.clock.advance(2 * HOUR);
    assert_eq!(client.get(&origin.url("/new")).status(), 200, "by the old copy");
    assert_eq!(client.get(&origin.url("/old")).status(), 403, "by the old copy");
    until("it is fetched beside that", || proxy.stats().fetches == 2);
    origin.release();
    until("the new copy is here", || proxy.stats().flights == 0);
    assert_eq!(client.get(&origin.url("/old")).status(), 200);
    assert_eq!(client.get(&origin.url("/new")).status(), 403);
    assert_eq!(origin.count("/robots.txt"), 2);
}

#[test]
fn after_a_day_a_request_waits_for_the_new_file() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /old\n")
        .then("/robots.txt", ok("User-agent: *\nDisallow: /new\n"));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/new")).status(), 200);
    proxy.clock.advance(DAY);
    assert_eq!(proxy.get(&origin.url("/new")).status(), 403);
}

#[test]
fn a_site_may_shorten_the_time_to_five_minutes() {
    let origin = Origin::start()
        .on(
            "/robots.txt",
            ok_with("Cache-Control: max-age=1\r\n", "User-agent: *\nDisallow: /old\n"),
        )
        .then("/robots.txt", ok("User-agent: *\nDisallow: /new\n"));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/new")).status(), 200);
    proxy.clock.advance(Duration::from_secs(200));
    assert_eq!(proxy.get(&origin.url("/new")).status(), 200, "the floor");
    proxy.clock.advance(Duration::from_secs(100));
    assert_eq!(proxy.get(&origin.url("/new")).status(), 403);
}

#[test]
fn a_file_that_has_not_changed_is_kept_without_being_sent() {
    let origin = Origin::start()
        .on("/robots.txt", ok_with("ETag: \"v1\"\r\n", "User-agent: *\nDisallow: /no\n"))
        .then("/robots.txt", Script::default().send("HTTP/1.1 304 Not Modified\r\n\r\n"));
    let proxy = Proxy::start();
    for day in 0..5 {
        assert_eq!(proxy.get(&origin.url("/no")).status(), 403, "day {day}");
        proxy.clock.advance(DAY);
    }
    assert_eq!(origin.count("/robots.txt"), 5);
    assert_eq!(origin.received("/robots.txt").field("if-none-match"), Some("\"v1\""));
}

#[test]
fn f5_an_unreachable_file_is_asked_for_once_in_a_while() {
    let origin = Origin::start().on("/robots.txt", failing(""));
    let proxy = Proxy::start();
    let mut client = proxy.client();
    for _ in 0..10 {
        assert_eq!(client.get(&origin.url("/")).reason(), "robots_unreachable");
    }
    assert_eq!(origin.count("/robots.txt"), 1);
    proxy.clock.advance(Duration::from_secs(30));
    for _ in 0..10 {
        let denied = client.get(&origin.url("/"));
        let wait: u64 =
            denied.field("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
        assert!((45..=60).contains(&wait), "it doubles: {wait}");
    }
    assert_eq!(origin.request_lines(), ["GET /robots.txt", "GET /robots.txt"]);
}

#[test]
fn an_origin_that_says_when_to_come_back_is_believed() {
    let origin = Origin::start()
        .on("/robots.txt", failing("Retry-After: 600\r\n"))
        .then("/robots.txt", ok("User-agent: *\nDisallow: /no\n"));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/")).field("retry-after"), Some("600"));
    proxy.clock.advance(Duration::from_secs(599));
    assert_eq!(proxy.get(&origin.url("/")).field("retry-after"), Some("1"));
    proxy.clock.advance(Duration::from_secs(1));
    assert_eq!(proxy.get(&origin.url("/")).status(), 200);
    assert_eq!(origin.count("/robots.txt"), 2);
}

/// RFC 9309 §2.3.1.4: a cached copy may go on being used while the file is unreachable.
#[test]
fn the_last_good_copy_serves_through_an_outage() {
    let origin = Origin::with_robots("User-agent: *\nDisallow: /no\n")
        .then("/robots.txt", failing(""))
        .then("/robots.txt", failing(""))
        .then("/robots.txt", Script::default().send(answer(404, "", "")));
    let proxy = Proxy::start();
    assert_eq!(proxy.get(&origin.url("/no")).status(), 403);
    for _ in 0..2 {
        proxy.clock.advance(9 * DAY);
        assert_eq!(proxy.get(&origin.url("/yes")).status(), 200);
        assert_eq!(proxy.get(&origin.url("/no")).reason(), "disallow_rule");
    }
    proxy.clock.advance(DAY);
    assert_eq!(proxy.get(&origin.url("/no")).status(), 200, "the site took the file away");
}

/// RFC 9309 §2.3.1.4: 30 days on, an unreachable file may be taken for an unavailable one, if
/// somebody has looked all the time.
#[test]
fn an_outage_of_thirty_days_opens_the_site_when_it_was_observed() {
    let origin = Origin::start().on("/robots.txt", failing(""));
    let proxy = Proxy::start();
    for days in [0, 9, 18, 27] {
        assert_eq!(proxy.get(&origin.url("/")).status(), 403, "day {days}");
        proxy.clock.advance(9 * DAY);
    }
    assert_eq!(proxy.get(&origin.url("/")).status(), 200, "day 36");

    let slept = Proxy::start();
    assert_eq!(slept.get(&origin.url("/")).status(), 403);
    slept.clock.advance(36 * DAY);
    assert_eq!(slept.get(&origin.url("/")).status(), 403, "nobody looked");
}
