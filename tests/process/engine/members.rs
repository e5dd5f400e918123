//! How many proxies there are, over a restart.

use courtesy::runtime::clock::monotonic;

use super::*;
use crate::testkit::parties::{Client, Origin};
use crate::testkit::processes::{Place, Serve};
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
    until("each knows of all", || running.iter().all(|proxy| members(proxy) == 3));
    server.kill();
    running.into_iter().for_each(|proxy| drop(proxy.stop()));

    // The last to come has joined a complete cluster.
    let last = places[2].serve();
    assert_eq!(members(&last), 3);
    drop(last.stop());
    let alone = places[0].serve();
    assert_eq!(members(&alone), 3);
    let ready = alone.admin("/readyz");
    assert!(ready.body.contains("this proxy is one of 3"), "{}", ready.body);
    let site = Origin::with_robots("User-agent: *\nCrawl-delay: 1\n");
    let begun = monotonic();
    for path in ["/1", "/2"] {
        let page = Client::connect(alone.address()).get(&site.url(path));
        assert_eq!(page.status(), 200);
        let waited = page.field("courtesy-waited");
        assert!(waited.is_some_and(|waited| waited.contains("by=share")), "{waited:?}");
    }
    let arrivals = site.arrivals();
    assert_spaced(begun, &arrivals, Duration::from_secs(3));
}

#[test]
fn a_pod_that_looks_replicated_warns_where_no_engine_is_set() {
    let server = RedisServer::start(&[]);
    let (alone, shared) = (Place::new(""), place(&server));
    for (place, host, warns) in [
        (&alone, "courtesy-6d4cf56db6-x7k2p", true),
        (&alone, "courtesy-1", true),
        (&alone, "crawler.example.com", false),
        (&shared, "courtesy-6d4cf56db6-x7k2p", false),
    ] {
        let mut command = place.command("serve");
        command.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").env("HOSTNAME", host);
        let said = Serve::start(command).stop();
        assert_eq!(said.contains("this pod looks like one of several"), warns, "{host}: {said}");
    }
}
