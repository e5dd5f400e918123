//! How many proxies there are, over a restart.

use std::process::Command;

use courtesy::runtime::clock::monotonic;

use super::*;
use crate::testkit::parties::{Client, Origin};
use crate::testkit::processes::{Place, Reply, Serve};
use crate::testkit::spacing::assert_spaced;

fn place(server: &RedisServer) -> Place {
    let url = format!("redis+unix://{}", server.socket().display());
    Place::new(&format!("[engine]\nurl = \"{url}\"\n"))
}

fn members(proxy: &Serve) -> usize {
    proxy.metric("courtesy_engine_members")
}

#[test]
fn a_proxy_that_starts_without_the_engine_takes_its_part_of_the_pace() {
    let mut server = RedisServer::start(&[]);
    let places = [(); 3].map(|()| place(&server));
    let running: Vec<_> = places.iter().map(Place::serve).collect();
    let part = |proxy: &Serve| proxy.metric("courtesy_engine_part");
    let settled = |proxy: &Serve| part(proxy) > 0 && members(proxy) == 3;
    until("each knows of all", || running.iter().all(settled));
    let parts: Vec<_> = running.iter().map(part).collect();
    // That all know of all is told a heartbeat later, and written a second later.
    let logged = monotonic();
    until("the parts are kept", || logged.elapsed() > Duration::from_secs(3));
    server.kill();
    running.into_iter().for_each(|proxy| drop(proxy.stop()));

    let alone = places[0].serve();
    assert_eq!(part(&alone), parts[0]);
    let ready = alone.admin("/readyz");
    let said = format!("this proxy keeps part {} of 4 of the pace", parts[0]);
    assert!(ready.status == 200 && ready.body.contains(&said), "{}", ready.body);
    let site = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let begun = monotonic();
    for path in ["/1", "/2"] {
        let page = Client::connect(alone.address()).get(&site.url(path));
        assert_eq!(page.status(), 200);
        let waited = page.field("courtesy-waited");
        assert!(waited.is_some_and(|waited| waited.contains("by=share")), "{waited:?}");
    }
    let arrivals = site.arrivals();
    assert_spaced(begun, &arrivals, Duration::from_secs(4));
}

#[test]
fn a_proxy_that_has_never_reached_its_engine_sends_nothing_with_a_delay() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let place = place(&server);
    let cold = place.serve();
    let ready = cold.admin("/readyz");
    assert!(ready.status == 503 && ready.body.contains("engine.share"), "{}", ready.body);
    let paced = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let page = Client::connect(cold.address()).get(&paced.url("/"));
    assert_eq!(page.status(), 503);
    assert!(page.field("retry-after").is_some());
    let plain = Origin::with_robots("User-agent: *\n");
    assert_eq!(Client::connect(cold.address()).get(&plain.url("/")).status(), 200);
    assert_eq!(paced.arrivals().len(), 0, "only its robots.txt was asked for");
    // It comes: what waits goes on.
    server.start_again(&[]);
    until("it is ready", || cold.admin("/readyz").status == 200);
    assert_eq!(Client::connect(cold.address()).get(&paced.url("/")).status(), 200);
}

#[test]
fn the_settings_say_how_many_there_are_where_the_engine_was_never_reached() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let url = format!("redis+unix://{}", server.socket().display());
    let place = Place::new(&format!("[engine]\nurl = \"{url}\"\nshare = 2\n"));
    let cold = place.serve();
    assert_eq!(cold.admin("/readyz").status, 200);
    let site = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let begun = monotonic();
    for path in ["/1", "/2"] {
        assert_eq!(Client::connect(cold.address()).get(&site.url(path)).status(), 200);
    }
    assert_spaced(begun, &site.arrivals(), Duration::from_secs(2));
}

#[test]
fn a_pod_that_looks_replicated_warns_of_no_engine_and_of_one_name_for_all() {
    let server = RedisServer::start(&[]);
    let named = format!(
        "[engine]\nurl = \"redis+unix://{}\"\nname = \"crawler-0\"\n",
        server.socket().display()
    );
    let (alone, shared, named) = (Place::new(""), place(&server), Place::new(&named));
    let (no_engine, one_name) =
        (Some("no shared engine is set"), Some("all have the engine.name crawler-0 if"));
    for (place, host, warning) in [
        (&alone, "courtesy-6d4cf56db6-x7k2p", no_engine),
        (&alone, "courtesy-1", no_engine),
        (&alone, "crawler.example.com", None),
        (&shared, "courtesy-6d4cf56db6-x7k2p", None),
        (&named, "courtesy-6d4cf56db6-x7k2p", one_name),
        (&named, "courtesy-1", one_name),
        (&named, "courtesy-0", None),
        (&named, "crawler.example.com", None),
    ] {
        let in_pod = |mut command: Command| {
            command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("HOSTNAME", host);
            command
        };
        let said = Serve::start(in_pod(place.command("serve"))).stop();
        let checked = in_pod(place.command("config")).arg("check").output().expect("it runs");
        assert!(checked.status.success(), "{checked:?}");
        let noted = String::from_utf8_lossy(&checked.stdout);
        for said in [&*said, &*noted] {
            let is_warned = said.contains("this pod looks like one of several");
            assert_eq!(is_warned, warning.is_some(), "{host}: {said}");
            assert!(warning.is_none_or(|warning| said.contains(warning)), "{host}: {said}");
        }
    }
}

#[test]
fn two_live_proxies_of_one_name_are_two_and_that_is_said() {
    let server = RedisServer::start(&[]);
    let url = format!("redis+unix://{}", server.socket().display());
    let places =
        [(); 2].map(|()| Place::new(&format!("[engine]\nurl = \"{url}\"\nname = \"pod\"\n")));
    let [first, second] = places.each_ref().map(Place::serve);
    for proxy in [&first, &second] {
        until("both count", || members(proxy) == 2);
        until("it is degraded", || proxy.admin("/readyz").body.contains("has the name pod, too"));
    }
    let found = places[0].run("doctor --json wget");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("several live proxies have the name pod"), "{found}");
    let said = first.stop();
    assert_eq!(said.matches("another live proxy has the same name").count(), 1, "{said}");
    // The one that stays is alone again, and a restart is none of two.
    until("it is alone", || !second.admin("/readyz").body.contains("has the name pod, too"));
    let beating = || server.command(&["ZCARD", "courtesy:1:{cluster}:members"]);
    until("the first is forgotten", || beating() == Reply::Int(1));
    second.kill();
    let again = places[1].serve();
    until("it has reached the engine", || again.metric("courtesy_engine_up") == 1);
    until("the second is forgotten", || beating() == Reply::Int(1));
    let said = again.stop();
    assert!(!said.contains("another live proxy"), "{said}");
}

#[test]
fn a_proxy_that_ends_in_order_gives_its_part_back_at_once() {
    let server = RedisServer::start(&[]);
    let places = [(); 2].map(|()| place(&server));
    let [first, second] = places.each_ref().map(Place::serve);
    until("each knows of both", || [&first, &second].iter().all(|it| members(it) == 2));
    drop(first.stop());
    until("it is alone", || members(&second) == 1);
    until("none is missed", || second.metric("courtesy_engine_missing") == 0);
    let seen = server.command(&["ZCARD", "courtesy:1:{cluster}:seen"]);
    assert_eq!(seen, Reply::Int(1), "and the last head of its log did not bring it back");
    // One that is killed is missed, until its next process takes its part over.
    let third = places[0].serve();
    until("each knows of both", || [&third, &second].iter().all(|it| members(it) == 2));
    // It is written each second.
    let begun = monotonic();
    until("its name is kept", || begun.elapsed() > Duration::from_secs(3));
    third.kill();
    until("it is missed", || second.metric("courtesy_engine_missing") > 0);
    let ready = second.admin("/readyz").body;
    assert!(ready.contains("are missing: their cells (1 of 2) are left free"), "{ready}");
    let fourth = places[0].serve();
    until("none is missed", || second.metric("courtesy_engine_missing") == 0);
    assert_eq!(members(&fourth), 2);
}
