//! What may stand at a key that is none of ours, or was changed by others.

use bytes::Bytes;
use courtesy::engine::{
    HoldCause, HoldLength, HoldRequest, LeaseToken, LogHead, LookupOutcome, LookupRequest,
    PublishOutcome, PublishRequest, SlotsRequest, SystemEngineClock,
};
use courtesy::types::timestamp::Timestamp;

use super::*;

const HORIZON: Duration = Duration::from_secs(120);

/// A value of each type, by the command that sets it.
const TYPES: [&[&str]; 6] = [
    &["SET", "KEY", "garbage"],
    &["RPUSH", "KEY", "a", "b"],
    &["SADD", "KEY", "a", "b"],
    &["HSET", "KEY", "a", "b"],
    &["ZADD", "KEY", "1", "a"],
    &["XADD", "KEY", "*", "a", "b"],
];

/// Numbers that are hard to take for one.
const NUMBERS: [&str; 12] = [
    "",
    "nan",
    "inf",
    "-inf",
    "-1",
    "1e300",
    "0x7f",
    " 5",
    "9007199254740991",
    "9007199254740993",
    "99999999999999999999",
    "18446744073709551615",
];

fn keys() -> Vec<String> {
    let of_origin = ["known", "lease", "pace", "presence", "places"];
    let of_origin = of_origin.map(|name| format!("courtesy:1:{{https://example.com}}:{name}"));
    let of_all = [
        "members", "about", "epoch", "heads", "ranks", "seen", "widths", "alone", "missing",
        "hours",
    ];
    let of_all = of_all.map(|name| format!("courtesy:1:{{cluster}}:{name}"));
    of_origin.into_iter().chain(of_all).collect()
}

/// A proxy whose heartbeats are those of the test: what was removed is seen when the test says so.
fn proxy(server: &RedisServer) -> RedisEngine {
    let clock = SystemEngineClock::new(Arc::new(SystemClock));
    let engine = reached("a", RedisConfig { clock: Some(Arc::new(clock)), ..on(server) });
    engine.set_head(LogHead {
        log: None,
        contradicts: false,
        number: 1,
        hash: [0; 32],
        time: Timestamp::from_millis(1),
    });
    engine
}

/// The words are carried out on a server without data, after a heartbeat.
fn set_alone(server: &RedisServer, engine: &RedisEngine, words: &[&str]) {
    get(engine.heartbeat());
    server.command(&["FLUSHALL"]);
    server.command(words);
}

/// Every operation works, and what it returns makes sense.
fn check(engine: &RedisEngine, what: &str) {
    println!("{what}");
    let origin = &site("example.com");
    check_pace(engine, origin);
    check_known(engine, origin, what);
    let heartbeat = get(engine.heartbeat());
    assert!(
        heartbeat.members >= 1 && heartbeat.format == 1 && heartbeat.epoch <= heartbeat.now,
        "{what}: {heartbeat:?}"
    );
    get(engine.heads());
}

fn check_pace(engine: &RedisEngine, origin: &Origin) {
    let request = SlotsRequest {
        origin,
        group: "bot",
        lane_delay: Duration::from_secs(1),
        site_delay: Duration::from_secs(2),
        cell_delay: Duration::from_secs(2),
        slack: Duration::from_millis(40),
        horizon: HORIZON,
        count: 2,
        left: Duration::ZERO,
        missed: None,
    };
    let reserved = get(engine.reserve_slots(request));
    let days = Duration::from_secs(3 * 24 * 60 * 60);
    assert!(reserved.slots.iter().all(|slot| *slot <= HORIZON), "{reserved:?}");
    assert!(reserved.beyond.is_none_or(|wait| wait < days), "{reserved:?}");
    let presence = get(engine.announce_presence(origin));
    assert!(presence.proxies >= 1, "{presence:?}");
    let hour = Duration::from_secs(3600);
    assert!(
        presence.hold.is_none_or(|hold| hold.left <= hour && hold.status >= 100),
        "{presence:?}"
    );
    let length = HoldLength::BackOff { first: hour / 60, max: hour / 2, jitter: 0 };
    let hold = HoldRequest { origin, length, status: 429, cause: HoldCause::BackOff };
    let held = get(engine.set_hold(hold));
    assert!(!held.left.is_zero() && held.left <= hour, "{held:?}");
    get(engine.end_hold(origin));
    get(engine.reset_backoff(origin));
    assert!(get(engine.take_place(origin, 1, 3)));
    get(engine.leave_place(origin, 1));
}

fn check_known(engine: &RedisEngine, origin: &Origin, what: &str) {
    let request =
        LookupRequest { origin, have: LeaseToken::default(), may_fetch: true, is_used: true };
    let token = match get(engine.lookup(request)).outcome {
        LookupOutcome::Lease(token) => token,
        other => panic!("{what}: {other:?}"),
    };
    assert!(get(engine.renew_lease(origin, token)), "{what}");
    assert_eq!(
        get(engine.publish(PublishRequest { origin, token, value: b"found" })),
        PublishOutcome::Stored,
        "{what}"
    );
    let known = get(engine.lookup(request)).outcome;
    assert_eq!(
        known,
        LookupOutcome::Newer { token, value: Bytes::from_static(b"found") },
        "{what}"
    );
}

#[test]
fn a_key_of_a_wrong_type_is_as_absent_and_replaced() {
    let server = RedisServer::start(&[]);
    let engine = proxy(&server);
    for key in keys() {
        for set in TYPES {
            let words: Vec<_> =
                set.iter().map(|word| if *word == "KEY" { &key } else { *word }).collect();
            set_alone(&server, &engine, &words);
            check(&engine, &format!("{words:?}"));
        }
    }
    assert_eq!(engine.stats().counts().errors.iter().sum::<u64>(), 0, "no operation failed");
}

#[test]
fn a_hostile_value_is_as_absent_or_bounded() {
    let server = RedisServer::start(&[]);
    let engine = proxy(&server);
    let keys = keys();
    let [known, lease, pace, presence, places, members, about, epoch, heads, ranks @ ..] =
        &keys[..]
    else {
        panic!()
    };
    let [ranks, seen, widths, alone, missing, hours] = ranks else { panic!() };
    let mut sets: Vec<Vec<String>> = Vec::new();
    let mut set = |words: &[&str]| sets.push(words.iter().map(|word| (*word).to_owned()).collect());
    for number in NUMBERS {
        let pair = format!("{number} {number}");
        set(&[
            "HSET", pace, "n", number, "g:bot", number, "h", number, "s", number, "c", number, "f",
            number,
        ]);
        set(&["HSET", pace, "n", &pair, "g:bot", &pair, "w", number, "h", number, "f", "5"]);
        set(&["SET", lease, &format!("{pair} other")]);
        set(&["SET", lease, number]);
        set(&["SET", epoch, number]);
        for key in [heads, hours] {
            set(&["HSET", key, "a", &format!("{pair} x 5"), number, number]);
        }
        for key in [presence, places, members, about, ranks, seen, widths, alone] {
            set(&["ZADD", key, number, "a", number, "other"]);
        }
        set(&["SET", missing, &format!("{pair} {number}")]);
    }
    for value in [
        "",
        "short",
        "\u{1}\0\0\0\0\0\0\0\0",
        "\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}\u{7f}",
    ] {
        set(&["SET", known, value]);
    }
    set(&["SETRANGE", known, "20000000", "x"]);
    set(&["SETRANGE", lease, "20000000", "x"]);
    for words in sets {
        set_alone(&server, &engine, &words.iter().map(String::as_str).collect::<Vec<_>>());
        check(&engine, &format!("{words:?}"));
    }
    assert_eq!(engine.stats().counts().errors.iter().sum::<u64>(), 0, "no operation failed");
}

#[test]
fn groups_that_were_once_used_are_forgotten_on_a_server_too() {
    let server = RedisServer::start(&[]);
    let clock = courtesy::engine::ManualEngineClock::starting_at(1_800_000_000_000_000);
    let engine = reached("a", RedisConfig { clock: Some(Arc::clone(&clock) as _), ..on(&server) });
    let origin = &site("example.com");
    for number in 0..400 {
        let group = format!("bot{number}");
        let delay = Duration::from_secs(1);
        let request = SlotsRequest {
            origin,
            group: &group,
            lane_delay: Duration::ZERO,
            site_delay: delay,
            cell_delay: delay,
            slack: delay / 20,
            horizon: HORIZON,
            count: 1,
            left: Duration::ZERO,
            missed: None,
        };
        get(engine.heartbeat());
        get(engine.reserve_slots(request));
        clock.advance(Duration::from_secs(10));
    }
    let fields = server.command(&["HLEN", &keys()[2]]);
    assert!(
        matches!(fields, crate::testkit::processes::Reply::Int(count) if count <= 73),
        "{fields:?}"
    );
}
