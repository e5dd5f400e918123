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
        is_cluster: true,
        timeout: TIMEOUT,
        connect_timeout: TIMEOUT,
        ..RedisConfig::at(address(1))
    }
}

fn nodes() -> Vec<RedisServer> {
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
        slack: second / 20,
        horizon: 100 * second,
        count: 1,
        left: Duration::ZERO,
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

#[test]
fn a_node_that_is_taken_for_a_server_and_the_other_way_round_are_named() {
    inside(|| {
        let _nodes = nodes();
        let alone = RedisServer::start(&["--port", "7005"]);
        for port in PORTS {
            let address = Address::Tcp { host: "127.0.0.1".into(), port, is_tls: false };
            let config = RedisConfig { is_cluster: false, ..config() };
            let engine = start("a", RedisConfig { addresses: vec![address], ..config });
            let error = fault(&engine, ErrorKind::Settings);
            assert!(error.detail.contains("set engine.cluster = true"), "{port}: {error}");
        }
        let address = Address::Tcp { host: "127.0.0.1".into(), port: 7005, is_tls: false };
        let engine = start("a", RedisConfig { addresses: vec![address.clone()], ..config() });
        let error = fault(&engine, ErrorKind::Settings);
        assert!(error.detail.contains("remove engine.cluster"), "{error}");
        let sentinel = Some("main".to_owned());
        let config =
            RedisConfig { is_cluster: false, sentinel, addresses: vec![address], ..config() };
        let mut error = None;
        let engine = start("a", config);
        until("it is no sentinel", || {
            error = engine.status().last_error;
            error.as_ref().is_some_and(|it| it.detail.contains("remove engine.sentinel"))
        });
        drop(alone);
    });
}
