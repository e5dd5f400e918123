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
    three.clock.advance(ms(1500));
    assert_eq!(count(&three.a), 3);
    three.clock.advance(ms(1));
    assert_eq!((count(&three.a), three.a.status().members), (1, 1));
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
    now(three.a.heartbeat());
    for status in [other.status(), three.a.status()] {
        assert_eq!((status.members, status.same_settings), (2, 1));
        assert!(status.has_other_settings(), "one of two, for both");
    }
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
    three.clock.advance(seconds(1));
    let heartbeat = now(second.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (2, false), "it may be a restart");
    // The first goes on: there are two.
    let heartbeat = now(first.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (2, true));
    three.clock.advance(seconds(1));
    let heartbeat = now(second.heartbeat());
    assert_eq!((heartbeat.members, heartbeat.has_namesake), (2, true));
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
fn the_lowest_free_rank_is_given_and_kept_for_ten_minutes() {
    let three = Three::new();
    let rank = |engine: &MemoryEngine| now(engine.heartbeat()).rank.expect("a rank");
    let ranks = [&three.a, &three.b, &three.c].map(|engine| rank(engine).rank);
    assert_eq!(ranks, [0, 1, 2]);
    assert_eq!((rank(&three.a).width(), rank(&three.a).is_settled), (4, true));
    now(three.b.leave());
    let beside = |name| three.a.beside(Config::named(name));
    assert_eq!(rank(&beside("d")).rank, 1, "it was given back");
    now(three.b.heartbeat());
    assert_eq!(now(three.a.heartbeat()).members, 3, "who has left is no member again: a, c and d");
    // The others are silent, and keep theirs.
    three.clock.advance(seconds(599));
    assert_eq!(rank(&three.a).rank, 0);
    assert_eq!(rank(&beside("e")).rank, 3);
    three.clock.advance(seconds(2));
    assert_eq!(rank(&beside("f")).rank, 1);
}

#[test]
fn a_silent_proxy_is_missing_until_it_is_back_or_has_a_successor() {
    let three = Three::new();
    let pod = |letters: &str| {
        three.a.beside(Config { process: letters.to_owned(), ..Config::named("pod") })
    };
    let missing = |engine: &MemoryEngine| engine.status().missing.0;
    let first = pod("aa11");
    three.beat_for(seconds(1), &[&three.a, &first]);
    assert_eq!((missing(&three.a), missing(&first)), (0, 0));
    three.beat_for(seconds(3), &[&three.a]);
    assert_eq!(three.a.status().missing, (1, 2));
    // A crashed pod comes again: it costs nothing.
    let second = pod("bb22");
    assert_eq!(now(second.heartbeat()).rank.map(|rank| rank.rank), Some(1));
    three.beat_for(seconds(1), &[&three.a, &second]);
    assert_eq!((missing(&three.a), missing(&second)), (0, 0));
    three.beat_for(seconds(3), &[&three.a]);
    assert_eq!(missing(&three.a), 1);
    assert_eq!(now(second.heartbeat()).rank.map(|rank| rank.rank), Some(1), "it was only silent");
    three.beat_for(seconds(1), &[&three.a, &second]);
    assert_eq!(missing(&three.a), 0);
}

#[test]
fn ranks_outlive_the_data_and_those_not_claimed_are_missing() {
    let three = Three::new();
    let beat = |engine: &MemoryEngine| now(engine.heartbeat());
    three.beat_for(seconds(1), &[&three.a, &three.b, &three.c]);
    three.a.lose();
    three.clock.advance(ms(500));
    let heartbeat = beat(&three.b);
    assert_eq!(heartbeat.rank.map(|rank| rank.rank), Some(1));
    assert_eq!(
        heartbeat.missing.map(|it| it.count()),
        Some((2, 4)),
        "the others are not there yet"
    );
    three.beat_for(seconds(1), &[&three.b, &three.a]);
    assert_eq!(three.b.status().missing, (1, 4));
    assert_eq!(beat(&three.c).rank.map(|rank| rank.rank), Some(2));
    three.beat_for(seconds(1), &[&three.a, &three.b, &three.c]);
    assert_eq!(three.a.status().missing.0, 0);
    assert_eq!(beat(&three.a).rank.map(|rank| rank.rank), Some(0));
}

#[test]
fn a_proxy_that_says_it_is_alone_is_missing_though_it_is_heard() {
    let three = Three::new();
    for engine in [&three.a, &three.b] {
        now(engine.heartbeat());
    }
    // Operations fail, heartbeats do not.
    three.b.away_start(seconds(1), ms(0), seconds(3));
    now(three.b.heartbeat());
    three.clock.advance(seconds(1));
    assert_eq!(now(three.a.heartbeat()).missing.map(|it| it.count()), Some((1, 2)));
    assert_eq!(three.a.slack(ms(500), seconds(600)), ms(100), "it ends with its cell");
    let reserved = three.reserve_slots(&three.a, 2);
    let at = |slot: Duration| three.clock.now() + slot.as_micros() as u64;
    let cell = 10_200_000;
    for slot in &reserved.slots {
        assert_eq!((at(*slot) % cell, at(*slot) / cell % 2), (0, 0), "its own cells");
    }
}

#[test]
fn a_start_while_the_engine_learns_of_others_is_reported_as_well() {
    let three = Three::new();
    three.beat_for(seconds(1), &[&three.a, &three.b]);
    three.clock.advance(seconds(6));
    assert!(!three.b.has_to_tell() && three.b.start_alone());
    now(three.b.heartbeat());
    assert!(three.b.has_to_tell());
    assert!(three.b.start_alone(), "another one, while the first is reported");
    three.b.end_alone();
    assert!(three.b.has_to_tell());
    three.b.end_alone();
    assert!(!three.b.has_to_tell() && !three.b.start_alone());
}

#[test]
fn more_members_than_there_can_be_are_not_believed() {
    let mut members = Members::new(cells::OwnRank::default());
    let heartbeat = Heartbeat { members: usize::MAX, same_settings: 1, ..Heartbeat::default() };
    members.note(heartbeat, (seconds(0), seconds(0)), false);
    assert_eq!(members.heartbeat_interval(), seconds(10));
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
fn the_last_head_of_each_hour_is_kept_for_a_week_of_them() {
    let three = Three::new();
    let time = crate::types::timestamp::Timestamp::from_millis(5);
    let log = crate::types::LogId([1; 16]);
    let head = |number: u64| LogHead {
        log: Some(log),
        contradicts: false,
        number,
        hash: [number as u8; 32],
        time,
    };
    let numbers = || {
        let hours = now(three.b.hours(log));
        hours.into_iter().map(|head| head.number).collect::<Vec<_>>()
    };
    let beat = |number| {
        three.a.set_head(head(number));
        now(three.a.heartbeat());
    };
    (1..=3).for_each(beat);
    three.clock.advance(Duration::from_secs(3600));
    (4..=9).for_each(beat);
    assert_eq!(numbers(), [3, 9]);
    for number in 10..210 {
        three.clock.advance(Duration::from_secs(3600));
        beat(number);
    }
    assert_eq!(numbers(), (42..210).collect::<Vec<_>>());
    // Cut off, and written on: nothing of it takes the place of what was seen.
    for number in [100, 300] {
        three.clock.advance(Duration::from_secs(3600));
        beat(number);
    }
    assert_eq!(numbers(), (42..210).collect::<Vec<_>>());
    assert_eq!(now(three.b.hours(crate::types::LogId([2; 16]))), []);
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
