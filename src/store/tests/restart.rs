//! A restart in each state of the machine: the next request does what the machine says, and the
//! origin sees no fetch that it would not have seen otherwise.

use super::*;
use crate::policy::profile::{Meaning, Meanings};

const HOST: &str = "example.com";

#[tokio::test]
async fn a_file_that_is_fresh_is_not_asked_for() {
    let home = Home::new();
    let house = home.house(vec![rules()]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY / 2);
    let house = house.restart(vec![]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    assert_eq!((house.fetches(), house.store.stats().fetches), (0, 0));
    assert_eq!(house.store.stats().entries, 1, "it is in memory again");
}

#[tokio::test]
async fn a_file_that_is_nearly_stale_serves_while_it_is_refreshed() {
    let home = Home::new();
    let house = home.house(vec![rules()]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY * 95 / 100);
    let house = house.restart(vec![None]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    settle().await;
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), 1);
    assert!(lock(&house.origins.asked)[0].validators.is_some());
}

#[tokio::test]
async fn a_file_that_is_stale_is_asked_for_with_its_validators() {
    let home = Home::new();
    let house = home.house(vec![rules()]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY);
    let house = house.restart(vec![not_modified()]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), 1);
    assert!(lock(&house.origins.asked)[0].validators.is_some());
    let house = house.restart(vec![]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
}

#[tokio::test]
async fn that_there_is_no_file_is_remembered_for_a_day() {
    let home = Home::new();
    let house = home.house(vec![status(404)]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY / 2);
    let house = house.restart(vec![status(404)]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "allow");
    assert_eq!(house.fetches(), 0);
    house.clock.advance(DAY / 2);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "allow");
    assert_eq!(house.fetches(), 1);
}

#[tokio::test]
async fn an_outage_keeps_its_copy_and_its_next_try() {
    let home = Home::new();
    let house = home.house(vec![rules(), status(503)]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(Duration::from_secs(20));
    let house = house.restart(vec![status(503)]);
    assert_eq!(house.ask(HOST, &rfc9309()).await, "unreachable");
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), 0);
    house.clock.advance(Duration::from_secs(10));
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), 1);
}

#[tokio::test]
async fn an_outage_without_a_copy_stays_closed() {
    let home = Home::new();
    let house = home.house(vec![status(503)]);
    house.ask(HOST, &rfc9309()).await;
    let house = house.restart(vec![status(503)]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "disallow");
    assert_eq!(house.fetches(), 0);
    house.clock.advance(DAY);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "disallow");
    assert_eq!(house.fetches(), 1);
}

/// One try a day, and a restart after each; what holds on the last day.
async fn after_days(
    mut house: House,
    days: u32,
    profile: &Arc<Profile>,
    answer: u16,
) -> (House, &'static str) {
    let mut verdict = "none";
    for _ in 0..days {
        house.clock.advance(DAY);
        house = house.restart(vec![status(answer)]);
        house.store.set_profiles([profile]);
        verdict = house.verdict(HOST, profile).await;
        assert_eq!(house.fetches(), 1);
    }
    (house, verdict)
}

#[tokio::test]
async fn thirty_days_are_thirty_days_with_a_restart_on_each() {
    let (home, profile) = (Home::new(), rfc9309());
    let house = home.house(vec![status(503)]);
    assert_eq!(house.verdict(HOST, &profile).await, "disallow");
    let (house, verdict) = after_days(house, 29, &profile, 503).await;
    assert_eq!(verdict, "disallow");
    let (house, verdict) = after_days(house, 1, &profile, 503).await;
    assert_eq!(verdict, "allow");
    let (house, verdict) = after_days(house, 1, &profile, 503).await;
    assert_eq!(verdict, "allow");
    let report = house.store.get(&origin(HOST)).await.expect("it is known");
    assert_eq!(report.persisted.states[0].failures, 32);
}

#[tokio::test]
async fn each_profile_goes_on_with_its_own_state() {
    let home = Home::new();
    let strict = Meanings { other_4xx: Meaning::Unreachable, ..Profile::default().meanings };
    let (open, closed) = (rfc9309(), Arc::new(Profile { meanings: strict, ..Profile::default() }));
    let mut house = home.house(vec![status(418)]);
    for day in 0..=31 {
        house.store.set_profiles([&open, &closed]);
        assert_eq!(house.verdict(HOST, &open).await, "allow");
        let expected = if day < 30 { "disallow" } else { "allow" };
        assert_eq!(house.verdict(HOST, &closed).await, expected, "day {day}");
        assert_eq!(house.fetches(), 1, "one fetch serves both");
        house.clock.advance(DAY);
        house = house.restart(vec![status(418)]);
    }
}

#[tokio::test]
async fn a_change_of_another_knob_does_not_restart_the_thirty_days() {
    let (home, before) = (Home::new(), rfc9309());
    let house = home.house(vec![status(503)]);
    house.ask(HOST, &before).await;
    let (house, _) = after_days(house, 29, &before, 503).await;
    let mut after = Profile::default();
    after.outage.retry_max /= 2;
    after.dialect.size_limit *= 2;
    let (_, verdict) = after_days(house, 1, &Arc::new(after), 503).await;
    assert_eq!(verdict, "allow");
}

#[tokio::test]
async fn a_change_of_what_a_status_means_does() {
    let (home, before) = (Home::new(), rfc9309());
    let house = home.house(vec![status(503)]);
    house.ask(HOST, &before).await;
    let (house, _) = after_days(house, 29, &before, 503).await;
    let meanings = Meanings { unauthorized: Meaning::Unreachable, ..Profile::default().meanings };
    let after = Arc::new(Profile { meanings, ..Profile::default() });
    let (_, verdict) = after_days(house, 1, &after, 503).await;
    assert_eq!(verdict, "disallow");
}

#[tokio::test]
async fn f16_a_clock_that_was_set_back_neither_frees_nor_locks() {
    let home = Home::new();
    let house = home.house(vec![rules(), status(404), status(503)]);
    for host in ["rules.example", "none.example", "down.example"] {
        house.ask(host, &rfc9309()).await;
    }
    let house = house.restart_at(
        Timestamp::from_millis(START.millis() - 400 * 86_400_000),
        vec![status(503), rules(), status(404)],
    );
    assert_eq!(house.verdict("rules.example", &rfc9309()).await, "rules", "the copy serves");
    assert_eq!(house.ask("rules.example", &rfc9309()).await, "unreachable");
    assert_eq!(house.verdict("none.example", &rfc9309()).await, "rules");
    assert_eq!(house.verdict("down.example", &rfc9309()).await, "allow");
    assert_eq!(house.fetches(), 3, "what is from the future is asked for");
}

#[tokio::test]
async fn f16_a_clock_that_jumps_ahead_does_not_end_an_outage() {
    let home = Home::new();
    let house = home.house(vec![status(503)]);
    house.ask(HOST, &rfc9309()).await;
    let (house, _) = after_days(house, 3, &rfc9309(), 503).await;
    let house = house.restart_at(START.plus(DAY * 365), vec![status(503)]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "disallow");
    let (house, verdict) = after_days(house, 20, &rfc9309(), 503).await;
    assert_eq!(verdict, "disallow");
    let (_, verdict) = after_days(house, 10, &rfc9309(), 503).await;
    assert_eq!(verdict, "allow");
}

#[tokio::test]
async fn whether_the_site_is_up_is_remembered() {
    let (home, google) = (Home::new(), named("google"));
    let house = home.house(vec![status(503)]);
    house.ask(HOST, &google).await;
    let (house, verdict) = after_days(house, 29, &google, 503).await;
    assert_eq!(verdict, "allow", "google: after twelve hours there is no copy, and no rule");
    house.store.note_site(&origin(HOST), false);
    let (house, verdict) = after_days(house, 1, &google, 503).await;
    assert_eq!(verdict, "disallow");
    house.store.note_site(&origin(HOST), true);
    let (_, verdict) = after_days(house, 1, &google, 503).await;
    assert_eq!(verdict, "allow");
}

#[tokio::test]
async fn what_memory_evicts_comes_back_from_the_disk() {
    let home = Home::new();
    let tiny = Config { entries_max: NonZeroUsize::MIN, ..Config::default() };
    let house = home.house_with(tiny, (0..20).map(|_| rules()).collect());
    for _ in 0..3 {
        for host in 0..20 {
            assert_eq!(house.verdict(&format!("{host}.example"), &rfc9309()).await, "rules");
        }
        house.flush().await;
    }
    assert_eq!((house.fetches(), house.store.stats().entries), (20, 1));
    assert_eq!((house.kept(), house.store.health().load_hits), (20, 40));
}

#[tokio::test]
async fn memory_that_keeps_nothing_asks_the_origin_no_more_often() {
    let home = Home::new();
    let house =
        home.house_with(Config { bytes_max: 1, ..Config::default() }, vec![rules(), rules()]);
    house.ask(HOST, &rfc9309()).await;
    for _ in 0..5 {
        assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
    }
    assert_eq!(house.fetches(), 1);
    house.clock.advance(DAY * 95 / 100);
    for _ in 0..5 {
        assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules");
        settle().await;
    }
    assert_eq!(house.fetches(), 2, "one refresh");
}

#[tokio::test]
async fn what_is_forgotten_is_asked_for_again() {
    let home = Home::new();
    let house = home.house(vec![rules(), rules()]);
    house.ask(HOST, &rfc9309()).await;
    let report = house.store.get(&origin(HOST)).await.expect("it is known");
    assert_eq!(report.persisted.states[0].state, "rules");
    let house = house.restart(vec![status(404)]);
    assert_eq!(house.store.get(&origin(HOST)).await, Some(report), "the same from the disk");
    assert!(house.store.forget(&origin(HOST)).await);
    assert!(!house.store.forget(&origin(HOST)).await);
    assert_eq!((house.store.get(&origin(HOST)).await, house.kept()), (None, 0));
    let house = house.restart(vec![status(404)]);
    assert_eq!(house.verdict(HOST, &rfc9309()).await, "allow");
    assert_eq!(house.fetches(), 1);
}
