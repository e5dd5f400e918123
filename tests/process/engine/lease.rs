//! The lease to fetch: of a proxy that stops for a while, of one that dies, of many at once.

use courtesy::engine::{LeaseToken, LookupOutcome, LookupRequest, PublishOutcome, PublishRequest};

use super::*;
use crate::testkit::parties::{Origin as Site, Script, answer, ok_with};
use crate::testkit::processes::Reply;

const PLAIN: &str = "Content-Type: text/plain\r\n";
const OLD: &str = "User-agent: *\nDisallow: /old/\n";
const NEW: &str = "User-agent: *\nDisallow: /new/\n";
/// A lease, the longest pause of a proxy that waits for one, and what a machine under load adds.
const ABOUT_THREE_SECONDS: Duration = Duration::from_secs(6);

/// An origin that responds to the first fetch of its robots.txt when it is released.
fn slow_site() -> Site {
    let held = Script::default().hold().send(answer(200, PLAIN, OLD));
    Site::start().on("/robots.txt", held).then("/robots.txt", ok_with(PLAIN, NEW))
}

fn proxy(server: &RedisServer) -> (Serve, Place) {
    let place = Place::new(&settings(&server.socket()));
    (serve(&place), place)
}

/// The status of a page, once it is there.
fn request(proxy: &Serve, url: String) -> std::thread::JoinHandle<Option<u16>> {
    let mut crawler = crate::testkit::processes::Crawler::new(proxy.address());
    std::thread::spawn(move || crawler.get(&url).ok().map(|answer| answer.status))
}

fn wait_for_fetch(site: &Site, number: usize) {
    let is_fetched = |log: &crate::testkit::parties::Log| {
        log.requests.iter().filter(|it| it.path() == "/robots.txt").count() >= number
    };
    site.wait_until("the robots.txt is fetched", is_fetched);
}

#[test]
fn a_holder_that_was_stopped_for_longer_than_its_lease_replaces_nothing() {
    let (server, site) = (RedisServer::start(&[]), slow_site());
    let [(stopped, _a), (other, _b), (third, _c)] = [(); 3].map(|()| proxy(&server));
    let first = request(&stopped, site.url("/page"));
    wait_for_fetch(&site, 1);
    stopped.signal("STOP");
    assert_eq!(other.get(&site.url("/page")).status, 200, "it fetches after the lease");
    let known = || {
        let key = format!("courtesy:1:{{{}}}:known", site.url("/").trim_end_matches('/'));
        server.command(&["GET", &key])
    };
    until("the finding is shared", || known() != Reply::Nil);
    let found = known();
    stopped.signal("CONT");
    site.release();
    assert_eq!(first.join().expect("no panic"), Some(200));
    let published = "courtesy_engine_operation_seconds_count{op=\"publish\"}";
    until("the late one has tried to publish", || stopped.metric(published) > 0);
    assert_eq!(known(), found, "it is superseded");
    let statuses = ["/new/page", "/old/page"].map(|path| third.get(&site.url(path)).status);
    assert_eq!(statuses, [403, 200], "the others use the newer file");
    assert_eq!(site.count("/robots.txt"), 2);
}

#[test]
fn a_holder_that_is_killed_costs_about_three_seconds() {
    let (server, site) = (RedisServer::start(&[]), slow_site());
    let [(killed, _a), (other, _b)] = [(); 2].map(|()| proxy(&server));
    let first = request(&killed, site.url("/page"));
    wait_for_fetch(&site, 1);
    let second = request(&other, site.url("/page"));
    let waits = "courtesy_engine_lookups_total{result=\"wait\"}";
    until("the other one waits", || other.metric(waits) > 0);
    let begin = courtesy::runtime::clock::monotonic();
    killed.kill();
    assert_eq!(first.join().expect("no panic"), None);
    wait_for_fetch(&site, 2);
    let took = courtesy::runtime::clock::monotonic() - begin;
    assert!(took < ABOUT_THREE_SECONDS, "{took:?}");
    assert_eq!(second.join().expect("no panic"), Some(200));
}

#[test]
fn of_fifty_proxies_that_ask_at_once_one_fetches() {
    let server = RedisServer::start(&[]);
    let engines: Vec<_> = (0..50).map(|number| reached(&number.to_string(), on(&server))).collect();
    let origin = &site("example.com");
    let request =
        LookupRequest { origin, have: LeaseToken::default(), may_fetch: true, is_used: true };
    // All are sent before the first response is awaited.
    let responses: Vec<_> = engines.iter().map(|engine| engine.lookup(request)).collect();
    let outcomes: Vec<_> = responses.into_iter().map(|response| get(response).outcome).collect();
    let leases = outcomes.iter().enumerate().filter_map(|(number, outcome)| match outcome {
        LookupOutcome::Lease(token) => Some((number, *token)),
        _ => None,
    });
    let leases: Vec<_> = leases.collect();
    let waits = outcomes.iter().filter(|outcome| matches!(outcome, LookupOutcome::Wait(_))).count();
    assert_eq!((leases.len(), waits), (1, 49));
    let (holder, token) = leases[0];
    let found = PublishRequest { origin, token, value: b"found" };
    assert_eq!(get(engines[holder].publish(found)), PublishOutcome::Stored);
    for (number, engine) in engines.iter().enumerate().filter(|(number, _)| *number != holder) {
        let known = get(engine.lookup(request)).outcome;
        assert!(
            matches!(known, LookupOutcome::Newer { token: found, .. } if found == token),
            "{number}"
        );
    }
}
