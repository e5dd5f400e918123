//! What memory has no room for is found on disk, and is used as if it had stayed.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::*;

/// Room for some ten entries with a file of [`page`].
const TIGHT: usize = 400_000;
const HOSTS: usize = 60;

/// A file that no other host has.
fn page(host: usize) -> String {
    let rules: String =
        (0..200).map(|rule| format!("disallow: /shop/{host}/shelf/{rule}/\n")).collect();
    format!("user-agent: *\n{rules}")
}

fn host(number: usize) -> String {
    format!("host-{number}.example")
}

fn tight() -> Config {
    Config { bytes_max: TIGHT, ..Config::default() }
}

fn pages() -> impl Iterator<Item = Option<Answer>> {
    (0..HOSTS).map(|number| Some(file(&page(number))))
}

impl House {
    /// All hosts have been looked up; the first ones are evicted.
    async fn filled(self) -> Self {
        for number in 0..HOSTS {
            assert_eq!(self.verdict(&host(number), &rfc9309()).await, "rules");
            assert!(self.store.stats().bytes <= TIGHT, "{:?}", self.store.stats());
        }
        assert!(self.is_evicted(0), "{:?}", self.store.stats());
        self
    }

    fn is_evicted(&self, number: usize) -> bool {
        self.store.core.entries.lock().memory.peek(&origin(&host(number))).is_none()
    }

    async fn body(&self, number: usize) -> Bytes {
        let known = self.store.lookup(&origin(&host(number)), &rfc9309(), None, &client(1)).await;
        let known = known.expect("it is known");
        known.state().copy().expect("there is a file").snapshot.body.clone()
    }
}

async fn evicted(home: &Home, then: Vec<Option<Answer>>) -> House {
    home.house_with(tight(), pages().chain(then).collect()).filled().await
}

#[tokio::test]
async fn an_evicted_origin_is_found_on_disk_without_a_fetch() {
    let home = Home::new();
    let house = evicted(&home, vec![]).await;
    for number in 0..HOSTS {
        assert_eq!(house.body(number).await, page(number), "{number}");
        assert!(!house.is_evicted(number));
        assert!(house.store.stats().bytes <= TIGHT);
    }
    assert_eq!(house.fetches(), HOSTS);
}

#[tokio::test]
async fn without_a_disk_an_evicted_origin_is_fetched_again() {
    let house = House::with(tight(), pages().chain([rules()]).collect()).filled().await;
    assert_eq!(house.store.get(&origin(&host(0))).await, None);
    assert_eq!(house.verdict(&host(0), &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), HOSTS + 1);
}

/// Each thread has its own runtime: one fetch too many would be a panic.
#[test]
fn many_threads_find_every_origin_in_memory_or_on_disk() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let home = Home::new();
    let house = Arc::new(runtime().block_on(evicted(&home, vec![])));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let house = Arc::clone(&house);
            std::thread::spawn(move || {
                runtime().block_on(async {
                    for step in 0..300 {
                        let number = step * (2 * thread + 7) % HOSTS;
                        assert_eq!(house.body(number).await, page(number));
                        assert!(house.store.stats().bytes <= TIGHT);
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let stats = house.store.stats();
    assert_eq!((house.fetches(), stats.waiters, stats.flights), (HOSTS, 0, 0));
}

#[tokio::test]
async fn an_evicted_origin_that_is_due_is_fetched_once_with_its_validators() {
    let home = Home::new();
    let house = Arc::new(evicted(&home, vec![None]).await);
    house.clock.advance(DAY);
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.body(0).await })
        })
        .collect();
    while house.fetches() == HOSTS {
        tokio::task::yield_now().await;
    }
    assert!(lock(&house.origins.asked)[HOSTS].validators.is_some());
    house.answer(not_modified().expect("an answer"));
    for caller in callers {
        assert_eq!(caller.await.expect("no panic"), page(0));
    }
    assert_eq!(house.fetches(), HOSTS + 1);
}

#[tokio::test]
async fn an_evicted_origin_near_its_end_serves_while_it_is_refreshed() {
    let home = Home::new();
    let house = evicted(&home, vec![None]).await;
    house.clock.advance(DAY * 95 / 100);
    assert_eq!(house.body(0).await, page(0));
    settle().await;
    assert_eq!((house.fetches(), house.store.stats().flights), (HOSTS + 1, 1));
}

#[tokio::test]
async fn an_evicted_origin_is_reported_and_forgotten_like_others() {
    let home = Home::new();
    let house = home.house_with(tight(), pages().chain([rules()]).collect());
    house.ask(&host(0), &rfc9309()).await;
    let report = house.store.get(&origin(&host(0))).await.expect("it is in memory");
    for number in 1..HOSTS {
        house.ask(&host(number), &rfc9309()).await;
    }
    assert!(house.is_evicted(0));
    assert_eq!(house.store.get(&origin(&host(0))).await, Some(report));
    assert!(house.is_evicted(0), "a report does not count as a use");
    assert!(house.store.forget(&origin(&host(0))).await);
    assert_eq!(house.store.get(&origin(&host(0))).await, None);
    assert_eq!(house.verdict(&host(0), &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), HOSTS + 1);
}

#[tokio::test]
async fn an_evicted_origin_has_a_state_under_every_profile() {
    let home = Home::new();
    let house = evicted(&home, vec![]).await;
    for (number, name) in [(0, "google"), (1, "conservative"), (2, "archival")] {
        assert!(house.is_evicted(number));
        assert!(house.has_copy(&host(number), &named(name)).await);
        assert!(house.has_copy(&host(number), &rfc9309()).await);
    }
    assert_eq!(house.fetches(), HOSTS);
}

/// RFC 9309 §2.3.1.4, for an origin that is evicted every day.
#[tokio::test]
async fn thirty_days_are_observed_although_evicted_on_each() {
    let home = Home::new();
    let hosts = 20;
    let house = home.house_with(tight(), vec![status(503)]);
    house.store.set_profiles([&rfc9309()]);
    for day in 0..=30 {
        let expected = if day < 30 { "disallow" } else { "allow" };
        assert_eq!(house.verdict(&host(0), &rfc9309()).await, expected, "day {day}");
        for number in 1..hosts {
            lock(&house.origins.script).push_back(Some(file(&page(number))));
            house.ask(&host(number), &rfc9309()).await;
        }
        assert!(house.is_evicted(0), "day {day}");
        lock(&house.origins.script).push_back(status(503));
        house.clock.advance(DAY);
    }
    assert_eq!(house.fetches(), 31 * hosts);
}

#[tokio::test]
async fn an_origin_larger_than_the_memory_is_used_and_kept_on_disk() {
    let home = Home::new();
    let large = page(7).repeat(40);
    let config = Config { bytes_max: large.len(), ..tight() };
    let house = home.house_with(config, vec![Some(file(&large))]);
    assert_eq!(house.body(0).await, large);
    assert!(house.is_evicted(0));
    assert_eq!(house.body(0).await, large);
    assert_eq!(house.fetches(), 1);
}

/// The derived state of an origin that was forgotten meanwhile must not be written back.
#[tokio::test]
async fn an_origin_forgotten_while_it_is_loaded_stays_forgotten() {
    let home = Home::new();
    let house = evicted(&home, vec![]).await;
    house.flush().await;
    let entries = Arc::clone(&house.store.core.entries);
    let google = named("google");
    // The read begins on the blocking pool, and its result is to be taken after the origin is
    // forgotten: of several reads one is not over at once.
    for number in 0..10 {
        let origin = origin(&host(number));
        let load = entries.load(&origin, &google);
        tokio::pin!(load);
        let polled = |cx: &mut Context<'_>| Poll::Ready(load.as_mut().poll(cx).is_pending());
        if poll_fn(polled).await {
            entries.forget(&origin, || ());
            load.await;
            assert!(entries.report(&origin).await.is_none());
            return;
        }
    }
    panic!("every read was over at once");
}
