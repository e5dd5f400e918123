//! An operator has an origin forgotten while it is fetched: what was known before has no part in
//! what the fetch stores.

use super::*;

const HOST: &str = "example.com";

/// An origin with this first answer, a day later, while its next fetch is under way.
async fn in_flight(home: &Home, first: Option<Answer>, from_disk: bool) -> House {
    let mut house = home.house(vec![first, None]);
    house.ask(HOST, &rfc9309()).await;
    house.clock.advance(DAY);
    let mut fetches = house.fetches();
    if from_disk {
        (house, fetches) = (house.restart(vec![None]), 0);
    }
    drop(house.asking(HOST, 1));
    while house.fetches() == fetches {
        tokio::task::yield_now().await;
    }
    house
}

/// When each state began, and the failures that were observed in it.
async fn stored(house: &House) -> Vec<(Timestamp, u32)> {
    let report = house.store.get(&origin(HOST)).await.expect("the fetch is stored");
    let Persisted { states, agents, .. } = report.persisted;
    let of_agents = agents.into_iter().flat_map(|agent| agent.states);
    states.into_iter().chain(of_agents).map(|state| (state.since, state.failures)).collect()
}

#[tokio::test]
async fn an_outage_that_is_forgotten_during_a_fetch_begins_with_that_fetch() {
    for from_disk in [false, true] {
        let home = Home::new();
        let house = in_flight(&home, status(503), from_disk).await;
        assert!(house.store.forget(&origin(HOST)).await);
        house.answer(status(503).expect("an answer"));
        assert_eq!(house.ask(HOST, &rfc9309()).await, "unreachable");
        for (since, failures) in stored(&house).await.into_iter().filter(|(_, count)| *count > 0) {
            assert_eq!((since, failures), (START.plus(DAY), 1), "from disk: {from_disk}");
        }
        let house = house.restart(vec![]);
        assert_eq!(house.verdict(HOST, &rfc9309()).await, "disallow");
    }
}

#[tokio::test]
async fn a_copy_that_is_forgotten_during_a_fetch_does_not_serve_an_outage() {
    for from_disk in [false, true] {
        let home = Home::new();
        let house = in_flight(&home, Some(file("user-agent: *\nallow: /\n")), from_disk).await;
        assert!(house.store.forget(&origin(HOST)).await);
        house.answer(status(503).expect("an answer"));
        assert_eq!(house.verdict(HOST, &rfc9309()).await, "disallow", "from disk: {from_disk}");
    }
}

/// A 304 has no file of its own (RFC 9110 §15.4.5), and the copy is what the origin has now.
#[tokio::test]
async fn a_copy_that_is_forgotten_and_then_confirmed_serves() {
    for from_disk in [false, true] {
        let home = Home::new();
        let house = in_flight(&home, rules(), from_disk).await;
        assert!(house.store.forget(&origin(HOST)).await);
        house.answer(not_modified().expect("an answer"));
        assert_eq!(house.verdict(HOST, &rfc9309()).await, "rules", "from disk: {from_disk}");
        assert!(lock(&house.origins.asked).last().expect("a fetch").validators.is_some());
    }
}

/// To forget one origin takes nothing from the fetches of others.
#[tokio::test]
async fn an_outage_goes_on_where_another_origin_is_forgotten() {
    let home = Home::new();
    let house = in_flight(&home, status(503), false).await;
    assert!(!house.store.forget(&origin("other.example")).await);
    house.answer(status(503).expect("an answer"));
    house.ask(HOST, &rfc9309()).await;
    assert!(stored(&house).await.contains(&(START, 2)));
}
