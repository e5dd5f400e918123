//! What is known of origins, from one proxy to another over a server.

use bytes::Bytes;
use courtesy::engine::{
    LeaseToken, LogHead, LookupOutcome, LookupRequest, PublishOutcome, PublishRequest, SealKey,
};
use courtesy::types::timestamp::Timestamp;

use super::*;

const KNOWN: &str = "courtesy:1:{https://example.com}:known";

fn lookup(engine: &RedisEngine, have: LeaseToken) -> LookupOutcome {
    let origin = &site("example.com");
    get(engine.lookup(LookupRequest { origin, have, may_fetch: true, is_used: false })).outcome
}

#[track_caller]
fn lease(engine: &RedisEngine, have: LeaseToken) -> LeaseToken {
    let LookupOutcome::Lease(token) = lookup(engine, have) else { panic!("no lease") };
    token
}

fn publish(engine: &RedisEngine, token: LeaseToken, value: &[u8]) -> PublishOutcome {
    get(engine.publish(PublishRequest { origin: &site("example.com"), token, value }))
}

#[test]
fn one_fetches_and_the_other_uses_what_was_found() {
    let server = RedisServer::start(&[]);
    let (a, b) = (reached("a", on(&server)), reached("b", on(&server)));
    let token = lease(&a, LeaseToken::default());
    let LookupOutcome::Wait(left) = lookup(&b, LeaseToken::default()) else { panic!("no wait") };
    assert!(left <= Duration::from_secs(3) && left > Duration::from_secs(1), "{left:?}");
    assert_eq!(publish(&a, token, b"found"), PublishOutcome::Stored);
    let newer = LookupOutcome::Newer { token, value: Bytes::from_static(b"found") };
    assert_eq!(lookup(&b, LeaseToken::default()), newer);
    let days = server.command(&["PTTL", KNOWN]);
    let days = format!("{days:?}");
    assert!(days.starts_with("Int(3887") || days.starts_with("Int(3888"), "45 days: {days}");
    assert_eq!(a.stats().counts().lookups, [0, 1, 0, 0]);
    assert_eq!(b.stats().counts().lookups, [1, 0, 1, 0]);
}

#[test]
fn a_holder_that_stops_for_longer_than_its_lease_is_refused() {
    let server = RedisServer::start(&[]);
    let clock = courtesy::engine::ManualEngineClock::starting_at(1_800_000_000_000_000);
    let config = || RedisConfig { clock: Some(Arc::clone(&clock) as _), ..on(&server) };
    let (a, b) = (reached("a", config()), reached("b", config()));
    let first = lease(&a, LeaseToken::default());
    clock.advance(Duration::from_secs(10));
    let second = lease(&b, LeaseToken::default());
    assert!(second > first);
    assert_eq!(publish(&b, second, b"new"), PublishOutcome::Stored);
    assert_eq!(publish(&a, first, b"old"), PublishOutcome::Superseded(second));
    assert!(!get(a.renew_lease(&site("example.com"), first)));
}

#[test]
fn a_value_that_was_changed_or_is_not_sealed_is_fetched_again() {
    let server = RedisServer::start(&[]);
    let sealed = |byte| RedisConfig { seal_key: Some(SealKey::new(&[byte; 32])), ..on(&server) };
    let (a, b) = (reached("a", sealed(1)), reached("b", sealed(1)));
    let (other, open) = (reached("c", sealed(2)), reached("d", on(&server)));
    let token = lease(&a, LeaseToken::default());
    publish(&a, token, b"found");
    assert!(matches!(lookup(&b, LeaseToken::default()), LookupOutcome::Newer { .. }));
    assert!(
        matches!(lookup(&open, LeaseToken::default()), LookupOutcome::Newer { .. }),
        "a proxy without a key"
    );
    let theirs = lease(&other, LeaseToken::default());
    assert_eq!(other.stats().counts().damaged, 1);
    get(other.release_lease(&site("example.com"), theirs));
    // A bit of the text is changed.
    server.command(&["SETBIT", KNOWN, &(8 * 44).to_string(), "1"]);
    server.command(&["SETBIT", KNOWN, &(8 * 44 + 1).to_string(), "0"]);
    let again = lease(&b, LeaseToken::default());
    assert!(again > token && b.stats().counts().damaged == 1);
    assert_eq!(publish(&b, again, b"again"), PublishOutcome::Stored);
    let newer = LookupOutcome::Newer { token: again, value: Bytes::from_static(b"again") };
    assert_eq!(lookup(&a, token), newer);
}

#[test]
fn values_of_the_formats_before_and_after_are_as_absent_and_replaced() {
    let server = RedisServer::start(&[]);
    let (a, b) = (reached("a", on(&server)), reached("b", on(&server)));
    let mut have = lease(&a, LeaseToken::default());
    publish(&a, have, b"found");
    for (count, format) in ["\0", "\u{2}", "\u{5}"].into_iter().enumerate() {
        server.command(&["SETRANGE", KNOWN, "0", format]);
        let again = lease(&a, LeaseToken::default());
        assert!(again > have, "{format:?}");
        assert_eq!(a.stats().counts().damaged as usize, count + 1, "{format:?}");
        assert_eq!(publish(&a, again, b"again"), PublishOutcome::Stored, "{format:?}");
        let newer = LookupOutcome::Newer { token: again, value: Bytes::from_static(b"again") };
        assert_eq!(lookup(&b, have), newer, "{format:?}");
        have = again;
    }
}

#[test]
fn a_file_of_another_format_is_as_absent_and_replaced() {
    use sha2::Digest;
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    let file = Bytes::from_static(b"User-agent: *\nDisallow: /private/\n");
    let digest: [u8; 32] = sha2::Sha256::digest(&file).into();
    let key = format!("courtesy:1:file:{}", courtesy::types::sanitize::hex(&digest));
    for format in ["\0", "\u{2}"] {
        get(engine.put_file(digest, file.clone()));
        server.command(&["SETRANGE", &key, "0", format]);
        assert_eq!(get(engine.get_file(digest)), None, "{format:?}");
        get(engine.put_file(digest, file.clone()));
        assert_eq!(get(engine.get_file(digest)), Some(file.clone()), "{format:?}");
    }
}

#[test]
fn a_heartbeat_returns_the_oldest_format_that_a_member_reads() {
    let server = RedisServer::start(&[]);
    let engine = reached("a", on(&server));
    let time = server.command(&["TIME"]);
    let [seconds, micros] = time.texts()[..] else { panic!("{time:?}") };
    let now = format!("{seconds}{micros:0>6}");
    // The score of a member is its format and 32 bits of the digest of its settings.
    for (format, oldest) in [(0_u64, 0), (2, 1)] {
        server.command(&["ZADD", "courtesy:1:{cluster}:members", &now, "another"]);
        let about = ((format << 32) + 7).to_string();
        server.command(&["ZADD", "courtesy:1:{cluster}:about", &about, "another"]);
        let heartbeat = get(engine.heartbeat());
        assert_eq!((heartbeat.members, heartbeat.format), (2, oldest), "{format}");
    }
}

#[test]
fn a_file_is_what_its_digest_says_or_absent() {
    use sha2::Digest;
    let server = RedisServer::start(&[]);
    let (a, b) = (reached("a", on(&server)), reached("b", on(&server)));
    let file = Bytes::from("User-agent: *\nDisallow: /private/\n".repeat(100));
    let digest: [u8; 32] = sha2::Sha256::digest(&file).into();
    assert_eq!(get(b.get_file(digest)), None);
    get(a.put_file(digest, file.clone()));
    assert_eq!(get(b.get_file(digest)), Some(file.clone()));
    get(a.put_file(digest, Bytes::from_static(b"another")));
    assert_eq!((get(b.get_file(digest)), b.stats().counts().damaged), (None, 1));
    let name = format!("courtesy:1:file:{}", courtesy::types::sanitize::hex(&digest));
    server.command(&["SETRANGE", &name, "3000000", "x"]);
    assert_eq!((get(b.get_file(digest)), b.stats().counts().damaged), (None, 2));
    server.command(&["DEL", &name]);
    server.command(&["RPUSH", &name, "of a wrong type"]);
    assert_eq!((get(b.get_file(digest)), b.stats().counts().damaged), (None, 3));
    get(a.put_file(digest, file.clone()));
    assert_eq!(get(b.get_file(digest)), Some(file));
    let large = Bytes::from(vec![0; 600 << 10]);
    assert_eq!(refused(a.put_file([1; 32], large)).kind, ErrorKind::TooLarge);
}

#[test]
fn heads_of_logs_come_back_as_they_were_noted() {
    let server = RedisServer::start(&[]);
    let (a, b) = (reached("a", on(&server)), reached("b", on(&server)));
    let head = |number| LogHead {
        log: None,
        contradicts: false,
        number,
        hash: [7; 32],
        time: Timestamp::from_millis(99),
    };
    a.set_head(head(1));
    b.set_head(head(2));
    get(a.heartbeat());
    get(b.heartbeat());
    a.set_head(head(3));
    get(a.heartbeat());
    let heads = [("a".to_owned(), head(3)), ("b".to_owned(), head(2))];
    assert_eq!(get(b.heads()), heads);
    server.command(&["HSET", "courtesy:1:{cluster}:heads", "c", "1 nonsense"]);
    assert_eq!(get(b.heads()), heads);
}
