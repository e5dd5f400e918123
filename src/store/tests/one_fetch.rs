//! One fetch for all requests, also when one leaves, panics or the proxy stops.

use super::*;

#[tokio::test]
async fn a_hundred_callers_cause_one_fetch_and_all_are_answered() {
    let house = House::new(vec![None]);
    let profile = rfc9309();
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
            tokio::spawn(async move { ask(&store, "example.com", &profile).await })
        })
        .collect();
    settle().await;
    assert_eq!(
        (house.fetches(), house.store.stats().waiters, house.store.stats().flights),
        (1, 100, 1)
    );
    house.answer(file("user-agent: *\ndisallow: /\n"));
    for caller in callers {
        assert_eq!(caller.await.expect("no panic"), "rules");
    }
    assert_eq!(
        (house.fetches(), house.store.stats().waiters, house.store.stats().flights),
        (1, 0, 0)
    );
}

#[tokio::test]
async fn a_fetch_goes_on_when_the_client_that_caused_it_has_left() {
    let house = House::new(vec![None]);
    let profile = rfc9309();
    let first = tokio::spawn({
        let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
        async move { ask(&store, "example.com", &profile).await }
    });
    settle().await;
    first.abort();
    settle().await;
    assert_eq!(house.store.stats().waiters, 0);
    house.answer(file(""));
    settle().await;
    assert_eq!(house.ask("example.com", &profile).await, "rules");
    assert_eq!(house.fetches(), 1);
}

#[test]
fn waiters_may_live_on_other_runtimes() {
    let house = House::new(vec![None]);
    let (done, answers) = mpsc::channel();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (store, done) = (Arc::clone(&house.store), done.clone());
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                let word =
                    runtime.expect("a runtime").block_on(ask(&store, "example.com", &rfc9309()));
                done.send(word).expect("a receiver");
            })
        })
        .collect();
    while house.store.stats().waiters < 4 || house.fetches() < 1 {
        std::thread::yield_now();
    }
    house.answer(file(""));
    assert!(answers.iter().take(4).all(|word| word == "rules"));
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    assert_eq!(house.fetches(), 1);
}

#[tokio::test]
async fn evicting_an_origin_starts_no_second_fetch() {
    let config = Config { entries_max: NonZeroUsize::MIN, ..Config::default() };
    let house = House::with(config, vec![rules(), None, rules(), rules()]);
    let profile = rfc9309();
    assert_eq!(house.ask("a.example", &profile).await, "rules");
    house.clock.advance(DAY);
    let waiting = tokio::spawn({
        let (store, profile) = (Arc::clone(&house.store), Arc::clone(&profile));
        async move { ask(&store, "a.example", &profile).await }
    });
    settle().await;
    assert_eq!(house.ask("b.example", &profile).await, "rules");
    assert_eq!(house.fetches(), 3);
    // What was known of it before it was evicted is not forgotten: the copy still serves.
    house.answer(status(503).expect("an answer"));
    assert_eq!(waiting.await.expect("no panic"), "unreachable");
    assert!(house.has_copy("a.example", &profile).await);
}

#[tokio::test]
async fn a_fetch_that_panics_answers_its_waiters_and_frees_the_origin() {
    let house = House::new(vec![]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "aborted");
    lock(&house.origins.script).push_back(rules());
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
}

#[test]
fn a_runtime_that_goes_down_frees_the_origin() {
    let config = Config { wait: Duration::from_millis(5), ..Config::default() };
    let house = House::with(config, vec![None, rules()]);
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let first = runtime();
    assert_eq!(first.block_on(house.ask("example.com", &rfc9309())), "timed out");
    drop(first);
    assert_eq!(runtime().block_on(house.ask("example.com", &rfc9309())), "rules");
}
