//! A primary that sentinels name.

use super::*;
use crate::testkit::inside;
use crate::testkit::processes::Reply;

fn tcp(port: u16) -> Address {
    Address::Tcp { host: "127.0.0.1".into(), port, is_tls: false }
}

fn config(addresses: Vec<Address>) -> RedisConfig {
    RedisConfig {
        addresses,
        sentinel: Some("main".to_owned()),
        timeout: TIMEOUT,
        ..RedisConfig::at(tcp(1))
    }
}

#[test]
fn the_primary_is_asked_for_at_each_connect() {
    inside(|| {
        let mut primary = RedisServer::start(&["--port", "7001"]);
        let replica = RedisServer::start(&["--port", "7002", "--replicaof", "127.0.0.1 7001"]);
        let watched = RedisServer::start_sentinel(
            7003,
            "sentinel monitor main 127.0.0.1 7001 1\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n",
        );
        // The first of the sentinels does not exist.
        let engine = start("a", config(vec![tcp(7009), tcp(7003)]));
        is_reached(&engine);
        get(engine.announce_presence(&site("example.com")));
        until("the sentinel knows the replica", || {
            let replicas = watched.command(&["SENTINEL", "REPLICAS", "main"]);
            matches!(&replicas, Reply::Array(list) if list.len() == 1
                && format!("{list:?}").contains("master-link-status\"), Text(\"ok"))
        });
        primary.kill();
        until("the replica has taken over", || {
            // Sentinels close the connections to a server that changes its role.
            let info = replica.try_command(&["INFO", "replication"]);
            info.is_ok_and(|info| info.text().contains("role:master"))
        });
        is_reached(&engine);
        until("it responds", || wait(engine.announce_presence(&site("example.com"))).is_ok());
        assert!(engine.stats().counts().lost > 0, "what was written last may be lost");

        let unknown = RedisConfig { sentinel: Some("other".to_owned()), ..config(vec![tcp(7003)]) };
        let error = fault(&start("b", unknown), ErrorKind::Sentinel);
        assert!(error.detail.contains("does not know"), "{error}");
    });
}

#[test]
fn a_sentinel_that_is_spoken_to_as_a_server_is_named() {
    inside(|| {
        let _primary = RedisServer::start(&["--port", "7001"]);
        let _watched =
            RedisServer::start_sentinel(7003, "sentinel monitor main 127.0.0.1 7001 1\n");
        let config = RedisConfig { sentinel: None, ..config(vec![tcp(7003)]) };
        let error = fault(&start("a", config), ErrorKind::Settings);
        assert!(error.detail.contains("set engine.sentinel"), "{error}");
    });
}
