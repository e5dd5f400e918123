//! What the proxies at one host share while requests are under way: holds that are pushed, and places.

use courtesy::runtime::clock::monotonic;

use super::*;
use crate::testkit::parties::{Client, Origin, Script, answer};
use crate::testkit::processes::{Place, Serve};

fn proxies(server: &RedisServer, count: usize, settings: &str) -> Vec<(Place, Serve)> {
    let start = |_| {
        let place = Place::new(&format!("{}{settings}", super::settings(&server.socket())));
        let serve = serve(&place);
        (place, serve)
    };
    (0..count).map(start).collect()
}

/// Announcements come every 15 s: what is learnt in a third of that was pushed.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn a_hold_of_an_unpaced_host_reaches_all_proxies_at_once() {
    let server = RedisServer::start(&[]);
    let busy = Script::default().send(answer(429, "Retry-After: 3000\r\n", ""));
    let site = Origin::with_robots("User-agent: *\n").on("/busy", busy);
    let all = proxies(&server, 3, "");
    for (_, proxy) in &all {
        assert_eq!(Client::connect(proxy.address()).get(&site.url("/page")).status(), 200);
    }
    // The lane and when the data began, of each.
    let subscribed = || {
        let clients = server.command(&["CLIENT", "LIST"]);
        clients.text().lines().filter(|line| line.contains("sub=2")).count() == all.len()
    };
    until("each has subscribed", subscribed);
    let begun = monotonic();
    assert_eq!(Client::connect(all[0].1.address()).get(&site.url("/busy")).status(), 429);
    for (_, proxy) in &all {
        let held = || Client::connect(proxy.address()).get(&site.url("/page")).status() == 429;
        until("it obeys the hold", held);
    }
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // None asked the site again.
    assert!(site.count("/busy") == 1, "{}", site.count("/busy"));
}

#[test]
fn without_the_right_to_subscribe_all_else_works() {
    let server = RedisServer::start(&[]);
    server.command(&["ACL", "SETUSER", "default", "resetchannels", "-subscribe", "-publish"]);
    let site = Origin::with_robots("User-agent: *\nCrawl-delay: 0.2\n");
    let all = proxies(&server, 1, "");
    let (_, proxy) = &all[0];
    assert_eq!(Client::connect(proxy.address()).get(&site.url("/page")).status(), 200);
    until("it says so", || proxy.said().contains("the engine's user may not subscribe"));
    assert_eq!(proxy.admin("/readyz").status, 200);
    assert_eq!(Client::connect(proxy.address()).get(&site.url("/other")).status(), 200);
}

#[test]
fn more_proxies_than_places_have_no_more_requests_under_way() {
    let server = RedisServer::start(&[]);
    // An end without an answer would be a failure, after which all wait.
    let slow = Script::default().hold().send(answer(200, "", ""));
    let site = Origin::with_robots("User-agent: *\n").on("/slow", slow);
    let all = proxies(&server, 3, "[pace]\nconcurrency = 2\n");
    for (_, proxy) in &all {
        assert_eq!(Client::connect(proxy.address()).get(&site.url("/page")).status(), 200);
    }
    // The first have heard of the last with their next announcement.
    let places = |path: &str| server.command(&["ZCARD", &format!("courtesy:1:{path}:places")]);
    let taken = format!("{{{}}}", site.url(""));
    let crawl = |proxy: &Serve| Client::connect(proxy.address()).get(&site.url("/page")).status();
    until("each takes places", || {
        // A place is there for as long as a request is under way, and an empty set is none.
        all.iter().for_each(|(_, proxy)| assert_eq!(crawl(proxy), 200));
        all.iter().all(|(_, proxy)| {
            proxy.metric("courtesy_engine_operation_seconds_count{op=\"take_place\"}") > 0
        })
    });
    let mut held = Vec::new();
    for (_, proxy) in &all {
        let mut client = Client::connect(proxy.address());
        client.ask("GET", &site.url("/slow"), "");
        held.push(client);
    }
    until("two are under way", || site.count("/slow") == 2);
    assert_eq!(places(&taken), crate::testkit::processes::Reply::Int(2));
    let asked =
        |proxy: &Serve| proxy.metric("courtesy_engine_operation_seconds_count{op=\"take_place\"}");
    let before: Vec<_> = all.iter().map(|(_, proxy)| asked(proxy)).collect();
    until("the third has asked in vain", || {
        all.iter().zip(&before).any(|((_, proxy), before)| asked(proxy) > before + 2)
    });
    assert_eq!(site.count("/slow"), 2);
    // Those under way end: the third has its place.
    site.release();
    until("the third is under way", || site.count("/slow") == 3);
    drop(held);
}
