//! What is known, how long, and under which profile.

use super::*;

#[tokio::test]
async fn what_is_current_is_not_asked_for_and_what_is_due_is() {
    let house = House::new(vec![rules(), status(404)]);
    let profile = rfc9309();
    assert_eq!(house.ask("example.com", &profile).await, "rules");
    house.clock.advance(DAY / 2);
    assert_eq!(house.ask("example.com", &profile).await, "rules");
    assert_eq!(house.fetches(), 1);
    house.clock.advance(DAY / 2);
    assert_eq!(house.ask("example.com", &profile).await, "unavailable");
    let stats = house.store.stats();
    assert_eq!((stats.hits, stats.misses, stats.fetches), (1, 2, 2));
}

#[tokio::test]
async fn the_last_tenth_is_refreshed_while_the_copy_serves() {
    let house = House::new(vec![rules(), None]);
    let profile = rfc9309();
    house.ask("example.com", &profile).await;
    house.clock.advance(DAY * 95 / 100);
    for _ in 0..3 {
        assert_eq!(house.ask("example.com", &profile).await, "rules");
        settle().await;
    }
    assert_eq!(house.fetches(), 2);
    house.answer(Ok(AccessResult::NotModified { freshness: Freshness::default() }));
    settle().await;
    house.clock.advance(DAY / 2);
    assert_eq!(house.ask("example.com", &profile).await, "rules");
    assert_eq!(house.fetches(), 2);
}

#[tokio::test]
async fn a_refresh_is_conditional_unless_a_profile_forbids_it() {
    let house = House::new(vec![rules(), rules(), rules()]);
    let (profile, google) = (rfc9309(), named("google"));
    house.ask("example.com", &profile).await;
    house.clock.advance(DAY);
    house.ask("example.com", &profile).await;
    house.ask("example.com", &google).await;
    house.clock.advance(DAY);
    house.ask("example.com", &profile).await;
    let asked = lock(&house.origins.asked);
    let conditional: Vec<_> = asked.iter().map(|ask| ask.validators.is_some()).collect();
    assert_eq!(conditional, [false, true, false]);
}

#[tokio::test]
async fn one_fetch_serves_every_profile() {
    let house = House::new(vec![status(403), rules()]);
    let (open, closed) = (rfc9309(), named("conservative"));
    let verdict = async |profile: &Arc<Profile>| {
        let known = house
            .store
            .lookup(&origin("example.com"), profile, None, &client(1))
            .await
            .expect("it is known");
        match known.policy(house.clock.wall()) {
            Policy::Rules(copy) => copy.rules.rule_count(),
            Policy::AllowAll(_) => 100,
            Policy::DisallowAll(_) => 200,
        }
    };
    assert_eq!((verdict(&open).await, verdict(&closed).await), (100, 200));
    assert_eq!(house.fetches(), 1);
    house.clock.advance(DAY);
    assert_eq!((verdict(&closed).await, verdict(&open).await), (1, 1));
    assert_eq!(house.fetches(), 2);
}

#[tokio::test]
async fn a_profile_that_comes_during_an_outage_gets_the_copy_too() {
    let down = Some(Ok(AccessResult::Without(Cause::failed(NetworkFailure::Timeout, ""))));
    let house = House::new(vec![rules(), down]);
    house.ask("example.com", &rfc9309()).await;
    house.clock.advance(DAY);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "unreachable");
    assert_eq!(house.ask("example.com", &named("archival")).await, "unreachable");
    assert_eq!(house.fetches(), 2);
    assert!(house.has_copy("example.com", &named("archival")).await);
}

#[tokio::test]
async fn a_large_file_is_read_too_and_without_the_line_that_was_cut() {
    let mut large = file(&"user-agent: *\ndisallow: /a\nallow: /\n".repeat(10_000));
    if let Ok(AccessResult::Successful { snapshot, .. }) = &mut large {
        let whole = Arc::make_mut(snapshot);
        whole.cut = true;
        whole.body = whole.body.slice(..whole.body.len() - 2);
    }
    let house = House::new(vec![Some(large)]);
    let known = house
        .store
        .lookup(&origin("example.com"), &rfc9309(), None, &client(1))
        .await
        .expect("it is known");
    let Policy::Rules(copy) = known.policy(house.clock.wall()) else { panic!("{known:?}") };
    assert_eq!(copy.rules.rule_count(), 2 * 10_000 - 1);
}

#[tokio::test]
async fn equal_files_are_parsed_once() {
    let house = House::new((0..10).map(|_| rules()).collect());
    let profile = rfc9309();
    for host in 0..10 {
        house.ask(&format!("{host}.example"), &profile).await;
    }
    assert_eq!((house.store.stats().entries, house.store.stats().parsed), (10, 1));
}

#[tokio::test]
async fn a_refused_origin_is_remembered_by_nobody() {
    let refused = NotSent(egress::Error::new(Failure::AddressProhibited, "10.0.0.1 is private"));
    let house = House::new(vec![Some(Err(refused)), rules()]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "refused");
    assert_eq!(house.store.stats().entries, 0);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
}

#[tokio::test]
async fn the_fetch_is_made_for_the_agent_that_is_judged() {
    let house = House::new(vec![rules()]);
    let known = house
        .store
        .lookup(&origin("example.com"), &rfc9309(), Some("ExampleBot"), &client(1))
        .await;
    assert!(known.is_ok());
    assert_eq!(lock(&house.origins.asked)[0].identity, FetchIdentity::of_agent(Some("ExampleBot")));
}

#[test]
fn a_digest_has_one_spelling() {
    let read = |text: &str| serde_json::from_value::<Digest>(text.into()).is_ok();
    assert!(read(&"ab".repeat(32)));
    for text in ["+a".repeat(32), "AB".repeat(32), "ab".repeat(33), "ab".repeat(31)] {
        assert!(!read(&text), "{text}");
    }
}
