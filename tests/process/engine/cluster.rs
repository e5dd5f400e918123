//! A cluster: each key is asked of the node that has its slot.

use courtesy::engine::SlotsRequest;

use super::*;
use crate::testkit::inside;
use crate::testkit::processes::Reply;

const PORTS: [u16; 3] = [7001, 7002, 7003];
/// That of `https://example.com`.
const SITE: &str = "example.com";

fn config() -> RedisConfig {
    let address = |port| Address::Tcp { host: "127.0.0.1".into(), port, is_tls: false };
    RedisConfig {
        // The first of the seeds does not exist.
        addresses: vec![address(7009), address(7002)],
        timeout: TIMEOUT,
        ..RedisConfig::at(address(1))
    }
}

pub(super) fn nodes() -> Vec<RedisServer> {
    let start =
        |port: u16| RedisServer::start(&["--port", &port.to_string(), "--cluster-enabled", "yes"]);
    let nodes: Vec<_> = PORTS.into_iter().map(start).collect();
    let ranges = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
    for (node, (first, last)) in nodes.iter().zip(ranges) {
        assert_eq!(node.command(&["CLUSTER", "ADDSLOTSRANGE", first, last]), ok());
    }
    for port in &PORTS[1..] {
        assert_eq!(nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port.to_string()]), ok());
    }
    until("the cluster is whole", || nodes.iter().all(is_whole));
    nodes
}

fn is_whole(node: &RedisServer) -> bool {
    let info = node.command(&["CLUSTER", "INFO"]);
    ["cluster_state:ok", "cluster_known_nodes:3"].iter().all(|it| info.text().contains(it))
}

fn ok() -> Reply {
    Reply::Text("OK".to_owned())
}

fn id(node: &RedisServer) -> String {
    node.command(&["CLUSTER", "MYID"]).text().to_owned()
}

#[test]
fn operations_follow_the_slots_also_while_one_is_moved() {
    inside(|| {
        let nodes = nodes();
        let engine = start("a", config());
        is_reached(&engine);
        for number in 0..50 {
            assert_eq!(
                get(engine.announce_presence(&site(&format!("{number}.example")))).proxies,
                1
            );
        }
        for node in &nodes {
            assert!(matches!(node.command(&["DBSIZE"]), Reply::Int(2..)), "keys on each node");
        }
        get(engine.heartbeat());
        let roster = get(engine.roster());
        let names: Vec<_> = roster.live().filter_map(|proxy| proxy.name.as_deref()).collect();
        assert_eq!(names, ["a"]);
        move_slot(&nodes, &engine);
        // A node that is asked for the map may not have heard of it yet; each such reply asks anew.
        until("the map is looked up anew", || {
            assert_eq!(get(engine.announce_presence(&site(SITE))).proxies, 1);
            engine.stats().counts().lost > 0
        });
    });
}

/// Moves the slot of the site, step by step.
fn move_slot(nodes: &[RedisServer], engine: &RedisEngine) {
    let origin = &site(SITE);
    let key = format!("courtesy:1:{{{origin}}}:presence");
    let Reply::Int(slot) = nodes[0].command(&["CLUSTER", "KEYSLOT", &key]) else { panic!() };
    let from = (slot / 5461).min(2) as usize;
    let (from, to) = (&nodes[from], &nodes[(from + 1) % 3]);
    let slot = slot.to_string();
    assert_eq!(to.command(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]), ok());
    assert_eq!(from.command(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]), ok());
    // No key of it is there: the node names the other one for this once. Operations on several
    // keys have to wait until the slot has moved.
    let second = Duration::from_secs(1);
    get(engine.reserve_slots(SlotsRequest {
        origin,
        group: "",
        lane_delay: second,
        site_delay: second,
        cell_delay: second,
        slack: second / 20,
        horizon: 100 * second,
        count: 1,
        left: Duration::ZERO,
        missed: None,
    }));
    let moving = wait(engine.announce_presence(origin)).err().map(|error| error.kind);
    assert!(moving.is_none_or(|kind| kind == ErrorKind::Moving), "{moving:?}");
    assert!(engine.status().is_up);
    assert_eq!(to.command(&["CLUSTER", "COUNTKEYSINSLOT", &slot]), Reply::Int(1));
    for node in [to, from] {
        assert_eq!(node.command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]), ok());
    }
    // The node names the other one for good.
    assert_eq!(get(engine.announce_presence(origin)).proxies, 1);
}

#[test]
fn a_node_that_is_away_takes_its_slots_with_it_and_no_others() {
    inside(|| {
        let mut nodes = nodes();
        for node in &nodes {
            node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        }
        let engine = start("a", config());
        is_reached(&engine);
        let sites: Vec<_> = (0..50).map(|number| site(&format!("{number}.example"))).collect();
        nodes[2].kill();
        until("it is missed", || !engine.status().is_up);
        let works = |site: &Origin| wait(engine.announce_presence(site)).is_ok();
        let count = sites.iter().filter(|site| works(site)).count();
        assert!((20..50).contains(&count), "{count} of 50");
        nodes[2].start_again(&[]);
        is_reached(&engine);
        until("all respond", || sites.iter().all(works));
    });
}

fn at(ports: &[u16]) -> RedisConfig {
    let address =
        |port: &u16| Address::Tcp { host: "127.0.0.1".into(), port: *port, is_tls: false };
    RedisConfig { addresses: ports.iter().map(address).collect(), ..config() }
}

/// Nothing but the URL says what the servers are.
#[test]
fn what_the_servers_are_is_found_and_what_does_not_fit_is_named() {
    inside(|| {
        let nodes = nodes();
        let _alone = RedisServer::start(&["--port", "7005"]);
        let sites: Vec<_> = (0..20).map(|number| site(&format!("{number}.example"))).collect();
        let works = |engine: &RedisEngine| {
            let works = |site: &Origin| wait(engine.announce_presence(site)).is_ok();
            until("all nodes respond", || sites.iter().all(works));
        };
        // Any node names the others, and so does one that has no slots.
        let replica = RedisServer::start(&["--port", "7004", "--cluster-enabled", "yes"]);
        assert_eq!(replica.command(&["CLUSTER", "MEET", "127.0.0.1", "7001"]), ok());
        let primary = id(&nodes[0]);
        until("it is a replica", || replica.command(&["CLUSTER", "REPLICATE", &primary]) == ok());
        for port in [7001, 7002, 7003, 7004] {
            works(&reached("a", at(&[port])));
        }

        // From a cluster to one server and back, as a changed file of the URL has it.
        let engine = reached("a", at(&[7001]));
        for ports in [&[7005][..], &[7009, 7003]] {
            engine.change(at(ports));
            works(&engine);
        }

        let error = fault(&start("a", at(&[7009, 7005])), ErrorKind::Settings);
        assert!(
            error.detail.contains("names 2 servers") && error.detail.contains("name one"),
            "{error}"
        );
        let no_sentinel = RedisConfig { sentinel: Some("main".to_owned()), ..at(&[7005]) };
        let engine = start("a", no_sentinel);
        let mut error = None;
        until("it is no sentinel", || {
            error = engine.status().last_error;
            error.as_ref().is_some_and(|it| it.detail.contains("remove engine.sentinel"))
        });
        // Who may not ask for the nodes learns of them by a redirection.
        let rights = ["ACL", "SETUSER", "default", "-cluster"];
        nodes.iter().for_each(|node| assert_eq!(node.command(&rights), ok()));
        let engine = start("a", at(&[7002]));
        until("it is named", || {
            let _ = wait(engine.announce_presence(&sites[0]));
            engine.status().last_error.is_some_and(|it| it.detail.contains("CLUSTER SLOTS"))
        });
    });
}
