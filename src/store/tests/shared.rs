//! Several proxies over one engine: one fetch, and what one has found the others use.

use super::*;
use crate::engine::{
    Config as EngineConfig, Engine, LeaseToken, LookupOutcome, LookupRequest, ManualEngineClock,
    MemoryEngine, PublishRequest,
};

/// Stores over one engine, and the time of its clock.
struct Proxies {
    houses: Vec<House>,
    engines: Vec<Arc<MemoryEngine>>,
    /// Of a proxy without a store.
    other: MemoryEngine,
    clock: Arc<ManualEngineClock>,
}

impl Proxies {
    /// One with each script.
    fn new(scripts: Vec<Vec<Option<Answer>>>) -> Self {
        let clock = ManualEngineClock::starting_at(START.millis() * 1000);
        let first = MemoryEngine::new(EngineConfig::named("0"), Arc::clone(&clock) as _);
        let other = first.beside(EngineConfig::named("other"));
        let others = (1..scripts.len()).map(|it| first.beside(EngineConfig::named(it.to_string())));
        let others: Vec<_> = others.collect();
        let engines: Vec<_> = std::iter::once(first).chain(others).map(Arc::new).collect();
        let houses: Vec<_> = scripts.into_iter().map(House::new).collect();
        for (house, engine) in houses.iter().zip(&engines) {
            house.store.set_engine(Arc::clone(engine) as _);
        }
        Self { houses, engines, other, clock }
    }

    async fn ask(&self, number: usize) -> &'static str {
        self.houses[number].ask("example.com", &rfc9309()).await
    }

    fn fetches(&self) -> Vec<usize> {
        self.houses.iter().map(House::fetches).collect()
    }

    /// Time passes, for all.
    fn pass(&self, time: Duration) {
        self.houses.iter().for_each(|house| house.clock.advance(time));
        self.clock.advance(time);
    }

    /// What the other proxy finds about example.com.
    async fn lookup(&self, have: LeaseToken) -> LookupOutcome {
        let origin = origin("example.com");
        let request = LookupRequest { origin: &origin, have, may_fetch: true, is_used: false };
        self.other.lookup(request).await.expect("it is there").outcome
    }

    async fn publish(&self, token: LeaseToken, value: &[u8]) {
        let origin = origin("example.com");
        let request = PublishRequest { origin: &origin, token, value };
        self.other.publish(request).await.expect("it is there");
    }
}

#[tokio::test]
async fn what_one_has_fetched_the_others_use() {
    let proxies = Proxies::new(vec![vec![rules()], vec![], vec![]]);
    for number in 0..3 {
        assert_eq!(proxies.ask(number).await, "rules");
    }
    assert_eq!(proxies.fetches(), [1, 0, 0]);
    let verdicts = proxies.houses[2].verdict("example.com", &rfc9309()).await;
    assert_eq!(verdicts, "rules");
}

#[tokio::test]
async fn a_first_question_of_fifty_at_once_causes_one_fetch() {
    let mut scripts = vec![Vec::new(); 50];
    scripts[0] = vec![None];
    let proxies = Proxies::new(scripts);
    let first = proxies.houses[0].asking("example.com", 1);
    settle().await;
    let others: Vec<_> =
        proxies.houses[1..].iter().map(|house| house.asking("example.com", 1)).collect();
    settle().await;
    proxies.houses[0].answer(file("user-agent: *\ndisallow: /\n"));
    assert_eq!(first.await.expect("no panic"), "rules");
    for other in others {
        assert_eq!(other.await.expect("no panic"), "rules");
    }
    assert_eq!(proxies.fetches().iter().sum::<usize>(), 1);
}

#[tokio::test]
async fn a_holder_that_dies_costs_three_seconds() {
    let proxies = Proxies::new(vec![vec![rules()]]);
    let LookupOutcome::Lease(held) = proxies.lookup(LeaseToken::default()).await else {
        panic!("nothing is known")
    };
    let asking = proxies.houses[0].asking("example.com", 1);
    settle().await;
    assert_eq!(proxies.fetches(), [0]);
    proxies.pass(Duration::from_millis(3001));
    assert_eq!(asking.await.expect("no panic"), "rules");
    assert_eq!(proxies.fetches(), [1]);
    // What the dead one publishes after all is older.
    settle().await;
    proxies.publish(held, b"{}").await;
    assert!(matches!(proxies.lookup(held).await, LookupOutcome::Newer { .. }));
}

#[tokio::test]
async fn while_the_engine_is_away_each_fetches_for_itself() {
    let proxies = Proxies::new(vec![vec![rules(), rules()], vec![status(500), rules()]]);
    proxies.engines.iter().for_each(|engine| engine.set_away(true));
    assert_eq!((proxies.ask(0).await, proxies.ask(1).await), ("rules", "unreachable"));
    proxies.engines.iter().for_each(|engine| engine.set_away(false));
    // What is due is shared again: a day later the one fetches for both.
    proxies.pass(DAY + Duration::from_secs(1));
    assert_eq!((proxies.ask(0).await, proxies.ask(1).await), ("rules", "rules"));
    assert_eq!(proxies.fetches(), [2, 1]);
}

#[tokio::test]
async fn an_older_result_never_replaces_a_newer_one() {
    let proxies = Proxies::new(vec![vec![rules()], vec![status(404)]]);
    assert_eq!(proxies.ask(0).await, "rules");
    proxies.engines[1].set_away(true);
    proxies.pass(Duration::from_secs(60));
    assert_eq!(proxies.ask(1).await, "unavailable");
    proxies.engines[1].set_away(false);
    assert_eq!(proxies.ask(1).await, "unavailable");
    assert_eq!(proxies.ask(0).await, "rules", "it is not due");
}

#[tokio::test]
async fn an_outage_is_observed_together() {
    let proxies = Proxies::new(vec![vec![status(503)], vec![]]);
    assert_eq!(proxies.ask(0).await, "unreachable");
    proxies.pass(Duration::from_secs(5));
    assert_eq!(proxies.ask(1).await, "unreachable");
    assert_eq!(proxies.fetches(), [1, 0]);
    for house in &proxies.houses {
        let report = house.store.get(&origin("example.com")).await.expect("it is known");
        let states = serde_json::to_value(&report).expect("JSON");
        assert_eq!(
            states["states"][0]["since"],
            serde_json::to_value(START).expect("JSON"),
            "{states}"
        );
    }
}

#[tokio::test]
async fn what_is_damaged_is_as_absent() {
    for value in [&b"no JSON"[..], b"{}", b"[]", br#"{"known":{"site_up":1,"states":[]}}"#] {
        let proxies = Proxies::new(vec![vec![rules()], vec![]]);
        let LookupOutcome::Lease(token) = proxies.lookup(LeaseToken::default()).await else {
            panic!("nothing is known")
        };
        proxies.publish(token, value).await;
        assert_eq!((proxies.ask(0).await, proxies.ask(1).await), ("rules", "rules"));
        assert_eq!(proxies.fetches(), [1, 0]);
    }
}

#[tokio::test]
async fn a_file_that_is_missing_or_another_is_fetched_again() {
    let proxies = Proxies::new(vec![vec![rules()], vec![rules()]]);
    assert_eq!(proxies.ask(0).await, "rules");
    let LookupOutcome::Newer { value, token } = proxies.lookup(LeaseToken::default()).await else {
        panic!("it is published")
    };
    // The same with the digest of a file that was never shared.
    let mut changed: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
    changed["known"]["good"]["file"]["sha256"] = "0".repeat(64).into();
    let LookupOutcome::Lease(next) = proxies.lookup(token).await else { panic!("no lease") };
    proxies.publish(next, changed.to_string().as_bytes()).await;
    assert_eq!(proxies.ask(1).await, "rules");
    assert_eq!(proxies.fetches(), [1, 1]);
}

#[tokio::test]
async fn what_is_forgotten_is_forgotten_by_all() {
    let proxies = Proxies::new(vec![vec![rules()], vec![rules()]]);
    assert_eq!(proxies.ask(0).await, "rules");
    settle().await;
    let shared = async || {
        let shared = proxies.houses[0].store.get_from_engine(&origin("example.com")).await;
        shared.expect("an engine")
    };
    assert!(shared().await.known.is_some_and(|known| known.good.is_some()));
    assert!(proxies.houses[0].store.forget(&origin("example.com")).await);
    assert_eq!(shared().await.known, None);
    assert_eq!(proxies.ask(1).await, "rules");
    assert_eq!(proxies.fetches(), [1, 1]);
}

#[tokio::test]
async fn a_failed_fetch_gives_the_lease_back() {
    let refusal = egress::Error::new(Failure::AddressProhibited, "a test");
    let proxies = Proxies::new(vec![vec![Some(Err(NotSent(refusal)))], vec![rules()]]);
    assert_eq!(proxies.ask(0).await, "refused");
    settle().await;
    assert_eq!(proxies.ask(1).await, "rules");
}

#[tokio::test]
async fn a_shorter_part_of_a_file_is_not_enough() {
    let proxies = Proxies::new(vec![vec![rules()], vec![rules()]]);
    assert_eq!(proxies.ask(0).await, "rules");
    let LookupOutcome::Newer { value, token } = proxies.lookup(LeaseToken::default()).await else {
        panic!("it is published")
    };
    let mut changed: serde_json::Value = serde_json::from_slice(&value).expect("JSON");
    changed["known"]["good"]["file"]["cut"] = true.into();
    let LookupOutcome::Lease(next) = proxies.lookup(token).await else { panic!("no lease") };
    proxies.publish(next, changed.to_string().as_bytes()).await;
    assert_eq!(proxies.ask(1).await, "rules");
    assert_eq!(proxies.fetches(), [1, 1]);
}
