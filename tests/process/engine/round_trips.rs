//! How often a request asks the engine: counted by a relay before the server.

use std::net::Ipv4Addr;

use super::*;
use crate::testkit::processes::{Command, Crawler, Relay, Robots, Site};

const UNPACED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const PACED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A proxy behind a relay of its own.
struct Counted {
    relay: Relay,
    serve: Serve,
    _place: Place,
}

impl Counted {
    fn start(server: &RedisServer) -> Self {
        let relay = Relay::to(&server.socket());
        let place = Place::new(&settings(&relay.socket()));
        Self { relay, serve: serve(&place), _place: place }
    }

    /// What has been sent since the last call, but for what no request waits for: heartbeats,
    /// announcements, subscriptions, and what a new connection asks first.
    fn commands(&self) -> Vec<Command> {
        let mut commands = self.relay.take_commands();
        let with_time = |it: &Command| {
            let is_of_cluster = it.keys.iter().any(|key| key.contains("{cluster}"));
            let is_mark = it.keys.len() == 2 && it.keys[0].ends_with(":presence");
            is_of_cluster || is_mark || it.name == "SUBSCRIBE"
        };
        commands.retain(|it| is_operation(it) && !with_time(it));
        commands
    }
}

fn is_operation(command: &Command) -> bool {
    command.name == "EVALSHA" || command.keys.iter().any(|key| key.starts_with("courtesy:"))
}

/// A reservation of slots: a script with the key of the pace alone, and eighteen arguments.
fn is_turn(command: &Command) -> bool {
    let is_of_pace = command.keys.len() == 1 && command.keys[0].ends_with(":pace");
    command.name == "EVALSHA" && is_of_pace && command.arguments == 18
}

fn site() -> Site {
    Site::start(|address| {
        let delay = if address == PACED { "Crawl-delay: 0.2\n" } else { "" };
        Robots::File(format!("User-agent: *\nDisallow: /private/\n{delay}"))
    })
}

#[test]
fn a_request_without_a_delay_to_a_known_origin_asks_the_engine_nothing() {
    let (server, site) = (RedisServer::start(&[]), site());
    let proxy = Counted::start(&server);
    let mut crawler = Crawler::new(proxy.serve.address());
    let mut status = |path: &str| crawler.get(&site.url_at(UNPACED, path)).expect("one").status;
    assert_eq!(status("/page"), 200);
    // What was found is shared after the response.
    let is_shared = |it: &Command| it.keys.len() == 2 && it.keys[0].ends_with(":known");
    until("it is shared", || proxy.commands().iter().any(is_shared));
    for _ in 0..50 {
        assert_eq!((status("/page"), status("/private/page")), (200, 403));
    }
    assert_eq!(proxy.commands(), []);
}

#[test]
fn a_first_request_to_an_origin_that_another_knows_asks_twice() {
    let (server, site) = (RedisServer::start(&[]), site());
    let (first, second) = (Counted::start(&server), Counted::start(&server));
    let url = site.url_at(UNPACED, "/page");
    assert_eq!(first.serve.get(&url).status, 200);
    let is_shared = |it: &Command| it.keys.len() == 2 && it.keys[0].ends_with(":known");
    until("it is shared", || first.commands().iter().any(is_shared));
    second.commands();
    assert_eq!(second.serve.get(&url).status, 200);
    let commands = second.commands();
    let names: Vec<_> = commands.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["EVALSHA", "EVALSHA"], "{commands:?}");
    assert_eq!(site.fetches_at(UNPACED), 1);
}

#[test]
fn a_start_with_a_delay_asks_the_engine_once() {
    let (server, site) = (RedisServer::start(&[]), site());
    let proxy = Counted::start(&server);
    let mut crawler = Crawler::new(proxy.serve.address());
    let url = site.url_at(PACED, "/page");
    let mut get = || assert_eq!(crawler.get(&url).expect("a response").status, 200);
    get();
    proxy.commands();
    let missed = || proxy.serve.metric("courtesy_engine_slots_total{end=\"missed\"}");
    let before = missed();
    (0..8).for_each(|_| get());
    let commands = proxy.commands();
    let turns = commands.iter().filter(|it| is_turn(it)).count();
    // A slot that is missed, on a machine under load, has to be replaced.
    assert!((8..=8 + missed() - before).contains(&turns), "{turns}: {commands:?}");
    // What the first request has found may be shared late.
    let others = commands.iter().filter(|it| !is_turn(it)).count();
    assert!(others <= 2, "{commands:?}");
}
