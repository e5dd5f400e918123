//! The failures of a shared engine by the clock of a site that asks for a delay: whatever happens, no
//! two starts are closer, and slots are given again soon after the engine is back. The table of
//! `docs/operate/cluster.md` has a row for each.

mod world;

use std::net::Ipv4Addr;
use std::time::Duration;

use super::{cluster, until};
use crate::testkit::inside;
use crate::testkit::processes::{HeldBack, RedisServer, Reply, Serve};
use world::{Settings, Start, World};

/// So long after the engine is back, starts have slots again; and what a busy machine may add.
const RECOVERY: Duration = Duration::from_secs(3);
const BUSY: Duration = Duration::from_secs(7);

/// A machine of tests may be slow, but what hangs is to be noticed soon.
const TIMEOUT: &str = "timeout = \"250ms\"\n";

fn three() -> Settings {
    Settings { proxies: 3, url: None, engine: TIMEOUT.to_owned() }
}

fn lossy() -> RedisServer {
    RedisServer::start(&[])
}

/// A server that has its data after a restart.
fn lasting() -> RedisServer {
    RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"])
}

/// Ends what happened to these proxies: soon a start of one of them has a slot, and each has one in the
/// end, when only `missing` ones are left out. Then the pace was kept at all times.
#[track_caller]
fn recovers(mut world: World, of: &[usize], missing: usize, mend: impl FnOnce(&mut World)) {
    let before = world.slots_used();
    mend(&mut world);
    let back = world.note("the engine is back");
    world.until_slots(of, 1, &before);
    let took = back.elapsed();
    world.until_missing(missing);
    world.note("the others are there");
    let before = world.slots_used();
    world.until_slots(of, of.len(), &before);
    let end = world.note("each has a slot");
    until("some more starts", || world.starts(end, |_| true).len() >= 2);
    world.keeps_the_pace();
    println!("the first slot after {took:?}");
    assert!(took < RECOVERY + BUSY, "{took:?}");
}

#[test]
fn an_engine_that_is_killed_leaves_each_proxy_cells_of_its_own() {
    let mut world = World::steady(lossy(), &three());
    let killed = world.note("killed");
    world.server.kill();
    world.until_each("starts in a cell", killed, Start::is_share);
    for proxy in world.running() {
        let ready = proxy.admin("/readyz");
        assert!(ready.status == 200 && ready.body.contains("of 4 of the pace"), "{}", ready.body);
        assert_eq!(proxy.said().matches("shared engine away").count(), 1, "{}", proxy.said());
    }
    recovers(world, &[0, 1, 2], 0, |world| world.server.start_again(&[]));
}

#[test]
fn an_engine_that_restarts_without_its_data_costs_a_delay() {
    let world = World::steady(lossy(), &three());
    recovers(world, &[0, 1, 2], 0, |world| {
        world.server.kill();
        world.server.start_again(&[]);
    });
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_restarts_with_its_data_costs_a_delay() {
    let world = World::steady(lasting(), &three());
    recovers(world, &[0, 1, 2], 0, |world| {
        world.server.kill();
        world.server.start_again(&[]);
    });
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_was_killed_and_has_its_data_again_is_one_pace() {
    let mut world = World::steady(lasting(), &three());
    let killed = world.note("killed");
    world.server.kill();
    world.until_each("starts in a cell", killed, Start::is_share);
    recovers(world, &[0, 1, 2], 0, |world| world.server.start_again(&[]));
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_hangs_costs_pace_and_its_late_commands_do_nothing() {
    let world = World::steady(lossy(), &three());
    let stopped = world.note("stopped");
    world.server.set_stopped(true);
    world.lasts(stopped, Duration::from_secs(8));
    recovers(world, &[0, 1, 2], 0, |world| world.server.set_stopped(false));
}

/// Replies come so late, for a while.
#[track_caller]
fn is_slow(late: Duration) {
    // By the default for the timeout, 50 ms.
    let world = World::steady(lossy(), &Settings { engine: String::new(), ..three() });
    let slow = |world: &World, late: Duration| {
        world.relays.iter().for_each(|relay| relay.set_delay(late / 2));
    };
    let begun = world.note("slow");
    slow(&world, late);
    world.lasts(begun, Duration::from_secs(12));
    recovers(world, &[0, 1, 2], 0, |world| slow(world, Duration::ZERO));
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_takes_40_ms_is_one_pace() {
    is_slow(Duration::from_millis(40));
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_takes_longer_than_its_timeout_is_as_one_that_is_away() {
    is_slow(Duration::from_millis(100));
}

/// These of three proxies lose the engine, until they start in cells of their own and the others go on;
/// then they have it again.
#[track_caller]
fn is_cut_off(proxies: &[usize], set_cut: impl Fn(&World, usize, bool)) {
    let world = World::steady(lossy(), &three());
    let cut = world.note("cut off");
    proxies.iter().for_each(|proxy| set_cut(&world, *proxy, true));
    world.until_all_of(proxies, "starts in a cell", cut, Start::is_share);
    let before = world.slots_used();
    let others: Vec<_> = (0..3).filter(|proxy| !proxies.contains(proxy)).collect();
    world.until_slots(&others, others.len(), &before);
    for proxy in others.iter().flat_map(|proxy| &world.proxies[*proxy]) {
        let ready = proxy.admin("/readyz");
        let said = format!("their cells ({} of 4) are left free", proxies.len());
        assert!(ready.status == 200 && ready.body.contains(&said), "{}", ready.body);
    }
    recovers(world, proxies, 0, |world| {
        proxies.iter().for_each(|proxy| set_cut(world, *proxy, false));
    });
}

#[test]
fn two_of_three_that_are_cut_off_are_of_one_pace_with_the_third() {
    is_cut_off(&[1, 2], |world, proxy, is_cut| world.relays[proxy].set_cut(is_cut));
}

#[test]
#[ignore = "nightly"]
fn one_that_is_cut_off_and_comes_back_is_of_one_pace_with_the_others() {
    is_cut_off(&[0], |world, proxy, is_cut| world.relays[proxy].set_cut(is_cut));
}

#[track_caller]
fn is_held_back(what: HeldBack) {
    is_cut_off(&[1], |world, proxy, is_cut| {
        world.relays[proxy].hold_back(if is_cut { what } else { HeldBack::Nothing });
    });
}

#[test]
#[ignore = "nightly"]
fn one_whose_requests_are_swallowed_is_of_one_pace_with_the_others() {
    is_held_back(HeldBack::Requests);
}

#[test]
#[ignore = "nightly"]
fn one_whose_replies_are_swallowed_is_of_one_pace_with_the_others() {
    is_held_back(HeldBack::Replies);
}

#[test]
fn four_of_one_name_are_one_pace_without_their_engine_too() {
    let engine = format!("{TIMEOUT}name = \"pod\"\n");
    let mut world = World::steady(lossy(), &Settings { proxies: 4, engine, ..three() });
    let killed = world.note("killed");
    world.server.kill();
    world.until_each("starts in a cell", killed, Start::is_share);
    recovers(world, &[0, 1, 2, 3], 0, |world| world.server.start_again(&[]));
}

#[test]
fn four_that_start_cold_send_nothing_before_they_reach_their_engine() {
    let mut server = lossy();
    server.kill();
    let mut world = World::before(server, &Settings { proxies: 4, ..three() });
    let cold = world.note("cold");
    for proxy in 0..4 {
        assert_eq!(world.get(proxy), 503);
    }
    assert_eq!(world.starts(cold, |_| true).len(), 0);
    world.crawl();
    recovers(world, &[0, 1, 2, 3], 0, |world| world.server.start_again(&[]));
}

#[test]
#[ignore = "nightly"]
fn two_that_are_left_of_six_while_the_engine_is_away_are_one_pace() {
    let mut world = World::steady(lasting(), &Settings { proxies: 6, ..three() });
    let killed = world.note("killed");
    world.server.kill();
    until("each misses the engine", || {
        world.running().all(|proxy| proxy.metric("courtesy_engine_up") == 0)
    });
    for proxy in &mut world.proxies[2..] {
        drop(proxy.take().map(Serve::stop));
    }
    world.until_each("starts in a cell", killed, Start::is_share);
    // Those that ended without the engine could not give their ranks back.
    recovers(world, &[0, 1], 4, |world| world.server.start_again(&[]));
}

#[test]
#[ignore = "nightly"]
fn an_engine_that_loses_its_data_at_any_time_is_one_pace() {
    let world = World::steady(lossy(), &three());
    for part in 1..=6 {
        let since = world.note("a start is awaited");
        until("something starts", || !world.starts(since, |_| true).is_empty());
        let last = world.starts(since, |_| true)[0].at;
        world.lasts(last, part * Duration::from_millis(190));
        let before = world.slots_used();
        world.note("the data is lost");
        world.server.command(&["FLUSHALL"]);
        world.until_slots(&[0, 1, 2], 1, &before);
    }
    recovers(world, &[0, 1, 2], 0, |_| {});
}

#[test]
#[ignore = "nightly"]
fn a_primary_that_is_killed_and_its_replica_that_takes_over_are_one_pace() {
    inside(|| {
        let primary = RedisServer::start(&["--port", "7001"]);
        let replica = RedisServer::start(&["--port", "7002", "--replicaof", "127.0.0.1 7001"]);
        let sentinel = RedisServer::start_sentinel(
            7003,
            "sentinel monitor main 127.0.0.1 7001 1\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n",
        );
        until("the sentinel knows the replica", || {
            let replicas = format!("{:?}", sentinel.command(&["SENTINEL", "REPLICAS", "main"]));
            replicas.contains("master-link-status\"), Text(\"ok")
        });
        let engine = format!("{TIMEOUT}sentinel = \"main\"\n");
        let settings = Settings { url: Some("redis://127.0.0.1:7003"), engine, ..three() };
        let mut world = World::steady(primary, &settings);
        world.note("killed");
        world.server.kill();
        until("the replica has taken over", || {
            let info = replica.try_command(&["INFO", "replication"]);
            info.is_ok_and(|info| info.text().contains("role:master"))
        });
        recovers(world, &[0, 1, 2], 0, |_| {});
    });
}

/// The number of the node of a cluster of three that has this key.
fn node_of(any: &RedisServer, key: &str) -> usize {
    let Reply::Int(slot) = any.command(&["CLUSTER", "KEYSLOT", key]) else { panic!("a slot") };
    (slot / 5461).min(2) as usize
}

#[test]
#[ignore = "nightly"]
fn a_node_of_a_cluster_that_is_killed_takes_slots_with_it_and_no_distance() {
    inside(|| {
        let mut nodes = cluster::nodes();
        for node in &nodes {
            node.command(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
        }
        let settings = Settings { url: Some("redis://127.0.0.1:7001"), ..three() };
        // The server of this world is one that nobody uses.
        let mut world = World::before(lossy(), &settings);
        // Heartbeats are answered, and nothing of the site is.
        let of_all = node_of(&nodes[0], "{cluster}");
        let key = |world: &World| {
            let url = world.url("/");
            format!("{{{}}}", url.trim_end_matches('/'))
        };
        while node_of(&nodes[0], &key(&world)) == of_all {
            world.address = Ipv4Addr::from_bits(world.address.to_bits() + 1);
        }
        let node = node_of(&nodes[0], &key(&world));
        world.becomes_steady();
        let killed = world.note("killed");
        nodes[node].kill();
        world.until_each("starts in a cell", killed, Start::is_share);
        recovers(world, &[0, 1, 2], 0, |_| nodes[node].start_again(&[]));
    });
}
