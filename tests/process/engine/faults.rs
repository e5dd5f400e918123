//! Servers that are not as they should be: each fault has a name, and ends when it is mended.

use courtesy::engine::redis::Password;
use courtesy::engine::{LeaseToken, LookupRequest, PublishRequest, SlotsRequest};

use super::*;
use crate::testkit::processes::Reply;

fn proxies(engine: &RedisEngine) -> Result<usize, Error> {
    wait(engine.announce_presence(&site("example.com"))).map(|presence| presence.proxies)
}

/// Operations until one fails for a reason of this kind.
#[track_caller]
fn fails(engine: &RedisEngine, kind: ErrorKind) -> Error {
    let mut last = None;
    until(&format!("{kind}"), || {
        // Another operation, such as a heartbeat, may have met it before.
        last = proxies(engine).err().map(|error| match engine.status().last_error {
            Some(first) if error.kind != kind => first,
            _ => error,
        });
        last.as_ref().is_some_and(|error| error.kind == kind)
    });
    last.expect("an error")
}

/// That the engine comes back by itself.
#[track_caller]
fn comes_back(engine: &RedisEngine) {
    is_reached(engine);
    until("it responds", || proxies(engine).is_ok());
    get(engine.heartbeat());
    assert_eq!(engine.status().last_error, None);
}

#[test]
fn without_a_server_nothing_waits_and_it_is_found_when_it_comes() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let engine = start("a", on(&server));
    let error = fault(&engine, ErrorKind::Connection);
    assert!(error.detail.contains("redis.sock"), "{error}");
    let status = engine.status();
    assert!(!status.was_reached && status.members == 1, "{status:?}");
    assert_eq!(proxies(&engine).unwrap_err().kind, ErrorKind::Broken);
    server.start_again(&[]);
    comes_back(&engine);
    assert!(engine.status().server.is_some_and(|server| server.starts_with("redis ")));
    assert!(engine.stats().counts().away > Duration::ZERO);
}

#[test]
fn a_wrong_password_is_named_and_shown_nowhere() {
    let server = RedisServer::start(&["--requirepass", "right-secret"]);
    let password = |text: &str| Some(Password::new(text));
    let none = start("a", on(&server));
    assert!(fault(&none, ErrorKind::Authentication).detail.starts_with("NOAUTH"));
    let wrong = start("a", RedisConfig { password: password("wrong-secret"), ..on(&server) });
    let error = fault(&wrong, ErrorKind::Authentication);
    assert!(error.detail.starts_with("WRONGPASS"), "{error}");
    assert!(!format!("{wrong:?} {error} {:?}", wrong.status()).contains("secret"));
    wrong.change(RedisConfig { password: password("right-secret"), ..on(&server) });
    comes_back(&wrong);
}

/// The rights that the pages name, and no others.
const RIGHTS: &str = "-@all +hello +info +time +script|load +evalsha \
    +get +set +getrange +strlen +del +pttl +pexpire +hget +hset +hmget +hgetall +hdel +hexists +hlen +hscan \
    +hrandfield +zadd +zrem +zremrangebyscore +zcard +zcount +zrange +zscore +publish +subscribe +unsubscribe &courtesy:*";

fn set_user(server: &RedisServer, rights: &str) {
    let words = ["ACL", "SETUSER", "courtesy", "reset", "on", ">secret", "~courtesy:*"];
    let words: Vec<_> = words.into_iter().chain(rights.split_whitespace()).collect();
    assert_eq!(server.command(&words), Reply::Text("OK".to_owned()));
}

fn as_user(server: &RedisServer) -> RedisConfig {
    let (user, password) = (Some("courtesy".to_owned()), Some(Password::new("secret")));
    RedisConfig { user, password, ..on(server) }
}

#[test]
fn the_rights_that_are_documented_suffice() {
    let server = RedisServer::start(&[]);
    set_user(&server, RIGHTS);
    let engine = reached("a", as_user(&server));
    let origin = &site("example.com");
    let request =
        LookupRequest { origin, have: LeaseToken::default(), may_fetch: true, is_used: true };
    get(engine.lookup(request));
    get(engine.publish(PublishRequest { origin, token: LeaseToken(1), value: b"" }));
    let second = Duration::from_secs(1);
    for number in 0..80 {
        get(engine.reserve_slots(SlotsRequest {
            origin,
            group: &format!("bot{number}"),
            lane_delay: second,
            site_delay: second,
            cell_delay: second,
            slack: second / 20,
            horizon: 100 * second,
            count: 1,
            left: Duration::ZERO,
            missed: None,
        }));
    }
    get(engine.put_file([0; 32], bytes::Bytes::new()));
    get(engine.get_file([0; 32]));
    let time = courtesy::types::timestamp::Timestamp::from_millis(0);
    engine.set_head(courtesy::engine::LogHead {
        log: None,
        contradicts: false,
        number: 1,
        hash: [0; 32],
        time,
    });
    get(engine.reset_backoff(origin));
    get(engine.heartbeat());
    get(engine.heads());
    // A key of a wrong type and a member that is gone are removed.
    server.command(&["DEL", "courtesy:1:{https://example.com}:presence"]);
    server.command(&["SET", "courtesy:1:{https://example.com}:presence", "garbage"]);
    server.command(&["ZADD", "courtesy:1:{cluster}:about", "1", "gone"]);
    get(engine.announce_presence(origin));
    get(engine.heartbeat());
    let log = server.command(&["ACL", "LOG"]);
    assert_eq!(log, Reply::Array(vec![]), "nothing was refused");
}

#[test]
fn lacking_rights_are_named() {
    let server = RedisServer::start(&[]);
    set_user(&server, &RIGHTS.replace("+info", ""));
    let engine = start("a", as_user(&server));
    let error = fault(&engine, ErrorKind::Permission);
    assert!(error.detail.starts_with("NOPERM") && error.detail.contains("info"), "{error}");
    set_user(&server, RIGHTS);
    comes_back(&engine);
    // A right that only a script lacks.
    set_user(&server, &RIGHTS.replace("+pexpire", ""));
    fails(&engine, ErrorKind::Permission);
    set_user(&server, RIGHTS);
    comes_back(&engine);
    // Keys that are not its own.
    server.command(&["ACL", "SETUSER", "courtesy", "resetkeys", "~other:*"]);
    fails(&engine, ErrorKind::Permission);
}

#[test]
fn a_server_without_memory_is_named_and_used_again_when_there_is_some() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let engine = reached("a", on(&server));
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = fails(&engine, ErrorKind::Memory);
    assert!(error.detail.contains("OOM"), "{error}");
    fault(&engine, ErrorKind::Memory);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    comes_back(&engine);
    assert!(!engine.status().may_evict);
}

#[test]
fn a_server_that_may_forget_is_noted() {
    let server = RedisServer::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    assert!(reached("a", on(&server)).status().may_evict);
}

#[test]
fn a_primary_that_becomes_a_replica_is_left_until_it_is_none() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    fails(&engine, ErrorKind::ReadOnly);
    let error = fault(&engine, ErrorKind::ReadOnly);
    assert!(error.detail.contains("replica"), "{error}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    comes_back(&engine);
}

#[test]
fn a_server_that_reads_its_data_is_waited_for() {
    let mut server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    for number in 0..3000 {
        server.command(&["SET", &format!("key{number}"), &"x".repeat(100)]);
    }
    server.command(&["SAVE"]);
    server.kill();
    let slow = ["--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"];
    server.spawn(&slow);
    fault(&engine, ErrorKind::Loading);
    comes_back(&engine);
}

#[test]
fn a_server_that_another_script_keeps_busy_is_named() {
    let server = RedisServer::start(&["--busy-reply-threshold", "50"]);
    let engine = reached("a", on(&server));
    std::thread::scope(|scope| {
        scope.spawn(|| server.command(&["EVAL", "while true do end", "0"]));
        until(
            "it is busy",
            || matches!(server.command(&["PING"]), Reply::Error(text) if text.starts_with("BUSY")),
        );
        fails(&engine, ErrorKind::Busy);
        server.command(&["SCRIPT", "KILL"]);
    });
    comes_back(&engine);
}

#[test]
fn settings_that_change_cost_one_connection_and_no_pause() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    // The line of its connection begins with the number of that.
    let connection = || {
        let clients = server.command(&["CLIENT", "LIST"]);
        let line = clients.text().lines().find(|line| line.contains("name=courtesy:a"));
        line.and_then(|line| line.split(' ').next()).map(str::to_owned)
    };
    let (first, before) = (connection(), engine.stats().counts().broken);
    assert!(first.is_some());
    engine.change(RedisConfig { timeout: TIMEOUT / 2, ..on(&server) });
    until("it has connected anew", || connection().is_some_and(|now| Some(now) != first));
    comes_back(&engine);
    assert_eq!(engine.stats().counts().broken, before);
}

#[test]
fn scripts_that_the_server_has_lost_are_loaded_again() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    proxies(&engine).unwrap();
    server.command(&["SCRIPT", "FLUSH"]);
    assert_eq!(proxies(&engine), Ok(1));
    assert_eq!(engine.stats().counts().errors.iter().sum::<u64>(), 0);
}

#[test]
fn a_server_that_was_killed_and_comes_back_empty_has_lost_its_data() {
    let mut server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    let origin = &site("example.com");
    let second = Duration::from_secs(1);
    let request = SlotsRequest {
        origin,
        group: "",
        lane_delay: Duration::ZERO,
        site_delay: 100 * second,
        cell_delay: 100 * second,
        slack: second / 20,
        horizon: 1000 * second,
        count: 1,
        left: Duration::ZERO,
        missed: None,
    };
    let epoch = engine.status().epoch;
    get(engine.reserve_slots(request));
    server.kill();
    fault(&engine, ErrorKind::Connection);
    server.start_again(&[]);
    comes_back(&engine);
    let (status, slot) = (engine.status(), get(engine.reserve_slots(request)).slots[0]);
    assert!(status.epoch > epoch && engine.stats().counts().lost > 0, "{status:?}");
    assert!(slot > 80 * second, "no start before a delay after the loss: {slot:?}");
}

#[test]
fn data_that_is_flushed_is_noticed_with_the_next_heartbeat() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    get(engine.heartbeat());
    let epoch = engine.status().epoch;
    server.command(&["FLUSHALL"]);
    get(engine.heartbeat());
    assert!(engine.status().epoch > epoch && engine.stats().counts().lost == 1);
}

#[test]
fn a_server_that_does_not_respond_costs_its_timeout_three_times() {
    let server = RedisServer::start(&[]);
    let timeouts = Duration::from_millis(200);
    let short = RedisConfig { timeout: timeouts, ..on(&server) };
    let engine = reached("a", short.clone());
    server.set_stopped(true);
    let mut kinds = Vec::new();
    until("the breaker opens", || {
        kinds.push(proxies(&engine).unwrap_err().kind);
        kinds.last() == Some(&ErrorKind::Broken)
    });
    let late = kinds.iter().filter(|kind| **kind == ErrorKind::Timeout).count();
    assert!((2..=4).contains(&late), "{kinds:?}");
    server.set_stopped(false);
    engine.change(RedisConfig { timeout: TIMEOUT, ..short });
    comes_back(&engine);
}
