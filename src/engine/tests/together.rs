//! Who is where, and how many there are.

use super::*;

#[test]
fn a_proxy_that_was_not_seen_for_two_intervals_is_not_counted() {
    let three = Three::new();
    let proxies = |engine: &MemoryEngine| now(engine.announce_presence(&three.site)).proxies;
    assert_eq!((proxies(&three.a), proxies(&three.b), proxies(&three.a)), (1, 2, 2));
    three.clock.advance(seconds(29));
    assert_eq!(proxies(&three.a), 2);
    let request =
        LookupRequest { origin: &three.site, have: LeaseToken(0), may_fetch: false, is_used: true };
    assert_eq!(now(three.c.lookup(request)).presence.proxies, 3);
    three.clock.advance(seconds(2));
    let request = LookupRequest { is_used: false, ..request };
    assert_eq!(
        now(three.b.lookup(request)).presence.proxies,
        2,
        "a and c; a lookup alone announces nothing"
    );
}

#[test]
fn a_proxy_that_missed_three_heartbeats_is_gone() {
    let three = Three::new();
    let count = |engine: &MemoryEngine| now(engine.heartbeat()).members;
    assert_eq!((count(&three.a), count(&three.b), count(&three.c)), (1, 2, 3));
    three.clock.advance(seconds(15));
    assert_eq!(count(&three.a), 3);
    three.clock.advance(seconds(1));
    assert_eq!(count(&three.a), 1);
    assert_eq!(three.a.status().members, 3, "the largest count of ten minutes");
}

#[test]
fn proxies_with_other_settings_are_counted() {
    let three = Three::new();
    let other = Config { settings: [9; 32], ..Config::named("d") };
    let other = three.a.beside(other);
    now(three.a.heartbeat());
    now(three.b.heartbeat());
    let heartbeat = now(other.heartbeat());
    assert_eq!(
        (heartbeat.members, heartbeat.same_settings, heartbeat.format),
        (3, 1, format::FORMAT)
    );
    assert_eq!(now(three.a.heartbeat()).same_settings, 2);
}

#[test]
fn proxies_that_have_gone_have_no_other_settings() {
    let three = Three::new();
    let other = three.a.beside(Config { settings: [9; 32], ..Config::named("d") });
    for engine in [&three.a, &three.b, &three.c, &other] {
        now(engine.heartbeat());
    }
    assert!(other.status().has_other_settings(), "three of four have other ones");
    three.clock.advance(seconds(16));
    for engine in [&three.a, &other] {
        now(engine.heartbeat());
    }
    let status = other.status();
    assert_eq!((status.present, status.same_settings), (2, 1));
    assert!(!status.has_other_settings(), "one of two");
    three.clock.advance(seconds(16));
    now(other.heartbeat());
    assert!(!other.status().has_other_settings(), "scaled down to one");
}

#[test]
fn two_live_processes_of_one_name_are_two_and_a_restarted_one_is_one() {
    let three = Three::new();
    let process = |letters: &str| {
        three.a.beside(Config { process: letters.to_owned(), ..Config::named("pod") })
    };
    let (first, second) = (process("aa11"), process("bb22"));
    assert_eq!(now(first.heartbeat()).members, 1);
    three.clock.advance(seconds(5));
    let heartbeat = now(second.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (1, false), "it may be a restart");
    // The first goes on: there are two.
    let heartbeat = now(first.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (2, true));
    three.clock.advance(seconds(5));
    let heartbeat = now(second.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (2, true));
    assert_eq!(second.status().namesake.as_deref(), Some("pod"));
    let proxies = |engine: &MemoryEngine| now(engine.announce_presence(&three.site)).proxies;
    assert_eq!((proxies(&first), proxies(&second)), (1, 2));
    let token = lease(three.lookup(&first, LeaseToken::default()));
    assert_eq!(three.lookup(&second, LeaseToken::default()), LookupOutcome::Wait(seconds(3)));
    assert_eq!(three.publish(&first, token, b""), PublishOutcome::Stored);
    // The first has ended.
    three.clock.advance(seconds(16));
    let heartbeat = now(second.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (1, false));
    assert_eq!(second.status().namesake, None);
}

#[test]
fn more_members_than_there_can_be_are_not_believed() {
    let mut members = Members::new(usize::MAX);
    assert_eq!(members.largest(), 10_000);
    let heartbeat = Heartbeat { members: usize::MAX, same_settings: 1, ..Heartbeat::default() };
    members.note(heartbeat, seconds(0));
    assert_eq!(members.heartbeat_interval(), seconds(50));
}

#[test]
fn the_engine_is_a_witness_of_the_heads_of_logs() {
    let three = Three::new();
    let time = crate::types::timestamp::Timestamp::from_millis(5);
    let head = LogHead { log: None, contradicts: false, number: 3, hash: [1; 32], time };
    three.a.set_head(head);
    now(three.a.heartbeat());
    now(three.b.heartbeat());
    assert_eq!(now(three.b.heads()), [("a".to_owned(), head)]);
}

#[test]
fn an_engine_that_is_away_refuses_at_once_and_says_so() {
    let three = Three::new();
    three.a.set_away(true);
    let response = three
        .a
        .announce_presence(&three.site)
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(response, Poll::Ready(Err(error)) if error.kind == ErrorKind::Broken));
    assert!(!three.a.status().is_up && three.b.status().is_up);
    three.a.set_away(false);
    now(three.a.announce_presence(&three.site));
}
