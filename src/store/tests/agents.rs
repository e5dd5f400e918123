//! What one agent is answered decides for no other: over a scripted fetch, in every order that
//! counts.

use super::*;
use crate::store::agents::AGENTS_PER_ORIGIN_MAX;

const HOST: &str = "example.com";
const HOUR: Duration = Duration::from_secs(60 * 60);

impl House {
    /// What follows at [`HOST`] for the agent with this token.
    async fn policy_of(&self, agent: &str) -> &'static str {
        self.told_under(agent, &rfc9309()).await
    }

    async fn told_under(&self, agent: &str, profile: &Arc<Profile>) -> &'static str {
        let known = self
            .store
            .lookup(&origin(HOST), profile, Some(agent), &client(1))
            .await
            .expect("it is known");
        match known.policy(self.clock.wall()) {
            Policy::Rules(_) => "rules",
            Policy::AllowAll(_) => "allow",
            Policy::DisallowAll(_) => "disallow",
        }
    }

    /// Whom was asked for, in this order.
    fn asked_for(&self) -> Vec<String> {
        let asked = lock(&self.origins.asked);
        let name =
            |ask: &FetchRequest| ask.identity.as_str().trim_end_matches(" courtesy").to_owned();
        asked.iter().map(name).collect()
    }
}

fn down() -> Option<Answer> {
    let failure = NetworkFailure::Connection;
    Some(Ok(AccessResult::Without(Cause::failed(failure, ""))))
}

fn redirects() -> Option<Answer> {
    Some(Ok(AccessResult::Without(Cause::TooManyRedirects { limit: 5 })))
}

/// In the last tenth of a day.
const LATE: Duration = Duration::from_secs(23 * 60 * 60);

#[tokio::test]
async fn a_status_of_one_agent_neither_opens_nor_shuts_the_site_for_another() {
    for (answer, own) in [
        (status(400), "allow"),
        (status(401), "allow"),
        (status(403), "allow"),
        (status(429), "disallow"),
        (status(431), "allow"),
        (status(451), "allow"),
        (status(500), "disallow"),
        (status(503), "disallow"),
        (status(206), "disallow"),
        (status(304), "disallow"),
        (redirects(), "allow"),
    ] {
        let named = format!("{answer:?}");
        let house = House::new(vec![answer, rules()]);
        assert_eq!(house.policy_of("Attacker").await, own, "{named}");
        assert_eq!(
            house.policy_of("Attacker").await,
            own,
            "{named}: kept for the one that it is for"
        );
        assert_eq!(house.policy_of("Victim").await, "rules", "{named}");
        assert_eq!(house.policy_of("Attacker").await, "rules", "{named}: the file is for all");
        assert_eq!(house.asked_for(), ["Attacker", "Victim"], "{named}");
    }
}

#[tokio::test]
async fn what_is_about_the_file_or_the_site_counts_for_all() {
    for (answer, policy) in
        [(rules(), "rules"), (status(404), "allow"), (status(410), "allow"), (down(), "disallow")]
    {
        let house = House::new(vec![answer]);
        assert_eq!([house.policy_of("One").await, house.policy_of("Two").await], [policy; 2]);
        assert_eq!(house.fetches(), 1);
    }
}

#[tokio::test]
async fn a_good_copy_is_not_dropped_by_another_agents_answer() {
    for answer in [status(403), status(400), status(429), status(503), redirects()] {
        let house = House::new(vec![rules(), answer, not_modified()]);
        assert_eq!(house.policy_of("Victim").await, "rules");
        house.clock.advance(LATE);
        assert_eq!(
            house.policy_of("Attacker").await,
            "rules",
            "by the copy, while it is asked for"
        );
        settle().await;
        assert_eq!(house.policy_of("Victim").await, "rules");
        settle().await;
        assert_eq!(house.asked_for(), ["Victim", "Attacker", "Victim"]);
        assert!(
            lock(&house.origins.asked)[2].validators.is_some(),
            "the copy is there to be confirmed"
        );
        assert_eq!(house.policy_of("Attacker").await, "rules");
    }
}

#[tokio::test]
async fn a_copy_that_is_due_is_asked_for_by_each_agent() {
    let house = House::new(vec![rules(), status(403), status(503), rules()]);
    house.policy_of("Victim").await;
    house.clock.advance(DAY);
    assert_eq!(house.policy_of("Attacker").await, "allow");
    assert_eq!(house.policy_of("Other").await, "rules", "the copy, RFC 9309 §2.3.1.4");
    assert_eq!(house.policy_of("Attacker").await, "allow");
    assert_eq!(house.policy_of("Victim").await, "rules");
    assert_eq!(house.asked_for(), ["Victim", "Attacker", "Other", "Victim"]);
}

#[tokio::test]
async fn each_agents_answer_outlives_a_restart() {
    let home = Home::new();
    let house = home.house(vec![status(403), status(429), status(503)]);
    let conservative = named("conservative");
    for _ in 0..2 {
        assert_eq!(house.policy_of("Refused").await, "allow");
        assert_eq!(house.policy_of("Throttled").await, "disallow");
        assert_eq!(house.told_under("Failing", &conservative).await, "disallow");
    }
    assert_eq!(house.fetches(), 3);
    let house = house.restart(vec![rules()]);
    assert_eq!(house.policy_of("Refused").await, "allow");
    assert_eq!(house.told_under("Refused", &conservative).await, "disallow");
    assert_eq!(house.policy_of("Throttled").await, "disallow");
    assert_eq!(house.policy_of("Failing").await, "disallow");
    assert_eq!(house.fetches(), 0);
    assert_eq!(house.policy_of("Victim").await, "rules");
    let house = house.restart(vec![]);
    for agent in ["Refused", "Throttled", "Failing", "Victim", "Another"] {
        assert_eq!(house.policy_of(agent).await, "rules", "{agent}");
    }
}

/// It was kept by a version that did not tell agents apart.
#[tokio::test]
async fn an_older_answer_that_names_no_agent_counts_for_none() {
    for (cause, state) in [
        (Cause::Status { code: 403, retry_after: None }, "unavailable"),
        (Cause::Status { code: 503, retry_after: None }, "unreachable"),
        (Cause::TooManyRedirects { limit: 5 }, "unavailable"),
    ] {
        let house = House::new(vec![rules()]);
        let profile = rfc9309();
        house.store.set_profiles([&profile]);
        let failed =
            Failed { at: START, url: origin(HOST).robots_url(), hops: 0, capture: None, cause };
        let kept = PersistedState {
            profile: Fingerprint::of(&profile),
            meanings: profile.meanings.word(),
            state: state.into(),
            since: START,
            next_try: START.plus(HOUR / 10),
            has_copy: false,
            failures: u32::from(state == "unreachable"),
            site_up: true,
        };
        let older = Persisted {
            good: None,
            failed: Some(failed),
            site_up: true,
            states: vec![kept],
            agents: Vec::new(),
            others: None,
            token: 0,
        };
        let tiers = &house.store.core.entries;
        let entry =
            tiers.builder.restore(&[profile], older, Default::default()).expect("it can be read");
        tiers.lock().memory.put(&origin(HOST), entry);
        assert_eq!(house.policy_of("Victim").await, "rules");
        assert_eq!(house.fetches(), 1);
    }
}

/// What an agent was answered goes on with what happens to the site, and the thirty days are those
/// of both.
#[tokio::test]
async fn a_failure_of_the_site_goes_on_with_each_agents_outage() {
    let tries = (0..30).flat_map(|_| [status(503), down()]);
    let house =
        House::new([status(403)].into_iter().chain(tries).chain([status(503), rules()]).collect());
    assert_eq!(house.policy_of("Refused").await, "allow");
    for _ in 0..30 {
        house.clock.advance(DAY / 2);
        assert_eq!(house.policy_of("Failing").await, "disallow");
        house.clock.advance(DAY / 2);
        assert_eq!(house.policy_of("Failing").await, "disallow");
        assert_eq!(
            house.policy_of("Refused").await,
            "disallow",
            "the site has failed since it was let in"
        );
    }
    house.clock.advance(DAY / 2);
    assert_eq!(
        house.policy_of("Failing").await,
        "allow",
        "observed for thirty days, RFC 9309 §2.3.1.4"
    );
    assert_eq!(house.policy_of("Victim").await, "rules");
}

#[tokio::test]
async fn made_up_tokens_do_not_open_the_site_and_have_bounds() {
    for (answer, own) in [(403, "allow"), (429, "disallow"), (503, "disallow")] {
        let tokens = 50;
        let home = Home::new();
        let house = home.house((0..tokens).map(|_| status(answer)).chain([rules()]).collect());
        let mut bytes = 0;
        for number in 0..tokens {
            assert_eq!(house.policy_of(&format!("made-up-{number}")).await, own);
            let now = house.store.stats().bytes;
            if number > AGENTS_PER_ORIGIN_MAX {
                assert!(now <= bytes + 64, "{number}: {now} after {bytes}");
            }
            bytes = now;
        }
        let report = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
        assert_eq!((report.agents.len(), report.others.is_some()), (AGENTS_PER_ORIGIN_MAX, true));
        let mut house = house;
        if answer == 429 {
            let script = vec![rules()];
            house = house.restart(script);
        }
        assert_eq!(house.policy_of("Victim").await, "rules", "after {answer}");
    }
}

#[tokio::test]
async fn an_agent_without_a_place_goes_by_nothing_that_it_was_not_told() {
    let refused = || (0..=AGENTS_PER_ORIGIN_MAX).map(|_| status(403));
    let house = House::new(
        [rules()].into_iter().chain(refused()).chain([status(403), down(), rules()]).collect(),
    );
    let profile = named("conservative");
    assert_eq!(house.told_under("First", &profile).await, "rules");
    house.clock.advance(LATE);
    // Each is refused while the copy is still fresh: what it goes by is its own refusal.
    for number in 0..=AGENTS_PER_ORIGIN_MAX {
        assert_eq!(house.told_under(&format!("refused-{number}"), &profile).await, "rules");
        settle().await;
    }
    // The first has lost its place. It does not go by the copy, which it was refused, but asks
    // again.
    assert_eq!(house.told_under("refused-0", &profile).await, "disallow");
    house.clock.advance(HOUR / 60);
    assert_eq!(
        house.told_under("refused-1", &profile).await,
        "disallow",
        "nor when the site fails"
    );
    assert_eq!(house.told_under("refused-2", &profile).await, "disallow");
    house.clock.advance(HOUR / 60);
    assert_eq!(house.told_under("refused-1", &profile).await, "rules");
}

#[tokio::test]
async fn what_was_observed_for_long_keeps_its_place() {
    let script = (0..3).map(|_| status(503)).chain((0..30).map(|_| status(503)));
    let house = House::new(script.collect());
    for _ in 0..3 {
        house.policy_of("Real").await;
        house.clock.advance(HOUR);
    }
    for number in 0..30 {
        house.policy_of(&format!("made-up-{number}")).await;
    }
    let persisted = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
    let real = persisted.agents.iter().find(|agent| agent.identity.as_str() == "Real courtesy");
    assert_eq!(real.expect("it has its place").states[0].since, START);
}

fn ask_as(house: &House, agent: String) -> tokio::task::JoinHandle<&'static str> {
    let store = Arc::clone(&house.store);
    tokio::spawn(async move {
        match store.lookup(&origin(HOST), &rfc9309(), Some(&agent), &client(1)).await {
            Ok(known) => known.state().word(),
            Err(_) => "undecided",
        }
    })
}

#[tokio::test]
async fn first_contact_is_one_fetch_where_its_answer_counts_for_all() {
    let house = House::new(vec![None]);
    let asking: Vec<_> =
        (0..100).map(|number| ask_as(&house, format!("agent-{}", number % 10))).collect();
    settle().await;
    assert_eq!((house.fetches(), house.store.stats().flights), (1, 1));
    house.answer(file("user-agent: *\ndisallow: /\n"));
    for asker in asking {
        assert_eq!(asker.await.expect("no panic"), "rules");
    }
    assert_eq!(house.fetches(), 1);
}

#[tokio::test]
async fn each_agent_fetches_once_and_waits_for_one_other_at_most() {
    let house = House::new((0..20).map(|_| None).collect());
    let asking: Vec<_> =
        (0..40).map(|number| ask_as(&house, format!("agent-{}", number % 10))).collect();
    settle().await;
    assert_eq!(house.fetches(), 1);
    house.answer(status(403).expect("an answer"));
    settle().await;
    // The nine others at the same time, whatever becomes of one of them.
    assert_eq!((house.fetches(), house.store.stats().flights), (10, 9));
    let mut asked = house.asked_for();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 10);
    // Strangers that come now and are never answered delay no other.
    let strangers: Vec<_> =
        (0..5).map(|number| ask_as(&house, format!("stranger-{number}"))).collect();
    settle().await;
    for _ in 0..9 {
        house.answer(status(429).expect("an answer"));
    }
    let mut words: Vec<_> = Vec::new();
    for asker in asking {
        words.push(asker.await.expect("no panic"));
    }
    assert_eq!(words.iter().filter(|word| **word == "unavailable").count(), 4);
    assert_eq!(words.iter().filter(|word| **word == "unreachable").count(), 36);
    strangers.iter().for_each(|stranger| stranger.abort());
    (0..5).for_each(|_| house.answer(status(403).expect("an answer")));
    settle().await;
    assert_eq!(house.store.stats().flights, 0);
}

/// What one fetch has learnt is not lost to another that began before it ended.
#[tokio::test]
async fn fetches_that_end_at_the_same_time_lose_nothing_of_each_other() {
    let house = House::new((0..9).map(|_| None).collect());
    let first = ask_as(&house, "first".into());
    settle().await;
    house.answer(status(403).expect("an answer"));
    assert_eq!(first.await.expect("no panic"), "unavailable");
    let asking: Vec<_> = (0..4).map(|number| ask_as(&house, format!("agent-{number}"))).collect();
    settle().await;
    assert_eq!(house.store.stats().flights, 4);
    (0..4).for_each(|_| house.answer(status(403).expect("an answer")));
    for asker in asking {
        assert_eq!(asker.await.expect("no panic"), "unavailable");
    }
    let persisted = house.store.get(&origin(HOST)).await.expect("it is known").persisted;
    assert_eq!(persisted.agents.len(), 5);
}

#[tokio::test]
async fn a_text_that_is_set_for_all_has_one_answer_for_all() {
    // The scripted fetch asks as the agent; with one token for all it is one identity.
    let house = House::new(vec![status(403)]);
    let long = ["a".repeat(65), "b".repeat(9000)];
    assert_eq!(house.policy_of(&long[0]).await, "allow");
    assert_eq!(house.policy_of(&long[1]).await, "allow", "both are fetched for as courtesy alone");
    assert_eq!(house.asked_for(), ["courtesy"]);
}
