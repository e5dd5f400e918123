//! Entries not used for long are compressed, which no request notices but by the time that it takes.

use super::*;

/// Of files that [`page`] makes: room for a few that are ready, and for many that are packed.
const TIGHT: usize = 400_000;

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

impl House {
    /// Without a disk; so many hosts have been asked about, the first ones are packed by now.
    async fn packed(hosts: usize, then: Vec<Option<Answer>>) -> Self {
        let pages = (0..hosts).map(|number| Some(file(&page(number))));
        Self::with(tight(), pages.chain(then).collect()).filled(hosts).await
    }

    async fn filled(self, hosts: usize) -> Self {
        for number in 0..hosts {
            assert_eq!(self.verdict(&host(number), &rfc9309()).await, "rules");
            let stats = self.store.stats();
            assert!(stats.bytes <= TIGHT, "{stats:?}");
        }
        assert!(self.is_packed(0), "{:?}", self.store.stats());
        self
    }

    fn is_packed(&self, number: usize) -> bool {
        let (entries, origin) = (self.store.fetches.tiers.lock(), origin(&host(number)));
        entries.memory.peek(&origin).is_none() && entries.memory.compressed(&origin).is_some()
    }

    async fn body(&self, number: usize) -> Bytes {
        let known = self
            .store
            .known(&origin(&host(number)), &rfc9309(), None, &client(1))
            .await
            .expect("it is known");
        known.state().copy().expect("there is a file").snapshot.body.clone()
    }
}

#[tokio::test]
async fn without_a_disk_nothing_is_forgotten_that_has_room_when_packed() {
    let house = House::packed(100, vec![]).await;
    let stats = house.store.stats();
    let ready = stats.entries - stats.compressed;
    assert!(stats.entries == 100 && (1..20).contains(&ready), "{stats:?}");
    for number in 0..100 {
        assert_eq!(house.body(number).await, page(number), "{number}");
        assert!(!house.is_packed(number), "who was asked about is ready");
        assert!(house.store.stats().bytes <= TIGHT);
    }
    let stats = house.store.stats();
    assert_eq!((house.fetches(), stats.entries, stats.decompressed), (100, 100, 100));
}

#[tokio::test]
async fn nothing_is_packed_while_all_has_room_that_is_ready() {
    let house = House::new((0..100).map(|number| Some(file(&page(number)))).collect());
    for number in 0..100 {
        house.ask(&host(number), &rfc9309()).await;
    }
    assert_eq!(house.store.stats().compressed, 0);
}

#[tokio::test]
async fn beyond_that_who_was_not_asked_about_for_longest_is_forgotten_first() {
    let hosts = 200;
    let config = Config { bytes_max: TIGHT / 4, ..tight() };
    let house = House::with(config, (0..hosts).map(|number| Some(file(&page(number)))).collect());
    for number in 0..hosts {
        house.ask(&host(number), &rfc9309()).await;
    }
    let stats = house.store.stats();
    assert!(
        stats.compressed > 50 && stats.entries < hosts && stats.bytes <= TIGHT / 4,
        "{stats:?}"
    );
    for number in 0..hosts {
        let is_known = house.store.get(&origin(&host(number))).await.is_some();
        assert_eq!(is_known, number >= hosts - stats.entries, "{number}");
    }
}

/// Many threads at once, each with its own runtime: one fetch too many would be a panic.
#[test]
fn an_origin_is_always_in_one_tier_whoever_asks_and_whatever_is_packed() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let house = Arc::new(runtime().block_on(House::packed(60, vec![])));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let house = Arc::clone(&house);
            std::thread::spawn(move || {
                runtime().block_on(async {
                    for step in 0..300 {
                        let number = step * (2 * thread + 7) % 60;
                        assert_eq!(house.body(number).await, page(number));
                        assert!(house.store.stats().bytes <= TIGHT);
                    }
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let stats = house.store.stats();
    assert_eq!((house.fetches(), stats.entries, stats.waiters, stats.flights), (60, 60, 0, 0));
    assert!(stats.decompressed > 60, "{stats:?}");
}

#[tokio::test]
async fn a_packed_origin_that_is_due_is_asked_once_with_its_validators() {
    let house = Arc::new(House::packed(60, vec![None]).await);
    house.clock.advance(DAY);
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let house = Arc::clone(&house);
            tokio::spawn(async move { house.body(0).await })
        })
        .collect();
    settle().await;
    assert_eq!(house.fetches(), 61);
    assert!(lock(&house.origins.asked)[60].validators.is_some());
    house.answer(not_modified().expect("an answer"));
    for caller in callers {
        assert_eq!(caller.await.expect("no panic"), page(0));
    }
    assert_eq!(house.fetches(), 61);
}

#[tokio::test]
async fn a_packed_origin_near_its_end_serves_while_it_is_refreshed() {
    let house = House::packed(60, vec![None]).await;
    house.clock.advance(DAY * 95 / 100);
    assert_eq!(house.body(0).await, page(0));
    settle().await;
    assert_eq!((house.fetches(), house.store.stats().flights), (61, 1));
}

#[tokio::test]
async fn what_is_packed_is_reported_and_forgotten_like_the_rest() {
    let house = House::with(tight(), (0..60).map(|number| Some(file(&page(number)))).collect());
    house.ask(&host(0), &rfc9309()).await;
    let report = house.store.get(&origin(&host(0))).await.expect("it is ready");
    for number in 1..60 {
        house.ask(&host(number), &rfc9309()).await;
    }
    assert!(house.is_packed(0));
    assert_eq!(house.store.get(&origin(&host(0))).await, Some(report));
    assert!(house.is_packed(0), "a report is no use");
    assert!(house.store.forget(&origin(&host(0))).await);
    assert_eq!(house.store.get(&origin(&host(0))).await, None);
    assert_eq!(house.store.stats().entries, 59);
    lock(&house.origins.script).push_back(rules());
    assert_eq!(house.verdict(&host(0), &rfc9309()).await, "rules");
    assert_eq!(house.fetches(), 61);
}

#[tokio::test]
async fn another_profile_finds_what_is_packed_too() {
    let house = House::packed(60, vec![]).await;
    for (number, name) in [(0, "google"), (1, "conservative"), (2, "archival")] {
        assert!(house.is_packed(number));
        assert!(house.has_copy(&host(number), &named(name)).await);
        assert!(house.has_copy(&host(number), &rfc9309()).await);
    }
    assert_eq!(house.fetches(), 60);
}

/// A month without a disk, in which the origin is packed each day.
#[tokio::test]
async fn thirty_days_are_thirty_days_when_packed_on_each() {
    let hosts = 20;
    let house = House::with(tight(), vec![status(503)]);
    house.store.set_profiles([&rfc9309()]);
    for day in 0..=30 {
        let expected = if day < 30 { "disallow" } else { "allow" };
        assert_eq!(house.verdict(&host(0), &rfc9309()).await, expected, "day {day}");
        for number in 1..hosts {
            lock(&house.origins.script).push_back(Some(file(&page(number))));
            house.ask(&host(number), &rfc9309()).await;
        }
        assert!(house.is_packed(0), "day {day}");
        lock(&house.origins.script).push_back(status(503));
        house.clock.advance(DAY);
    }
    assert_eq!(house.fetches(), 31 * hosts);
}

#[tokio::test]
async fn news_of_a_site_reach_it_where_it_is_packed() {
    let home = Home::new();
    let house = home.house_with(tight(), (0..60).map(|number| Some(file(&page(number)))).collect());
    house.store.set_profiles([&rfc9309()]);
    let house = house.filled(60).await;
    let site_up = async |house: &House| {
        let report = house.store.get(&origin(&host(0))).await.expect("it is known");
        assert_eq!(report.persisted.states.len(), 1);
        report.persisted.site_up
    };
    assert!(site_up(&house).await);
    house.store.note_site(&origin(&host(0)), false);
    assert!(house.is_packed(0) && !site_up(&house).await);
    let house = house.restart(vec![]);
    assert!(!site_up(&house).await, "on the disk, too");
}

#[tokio::test]
async fn a_large_file_is_packed_where_it_delays_nobody() {
    let large = page(7).repeat(40);
    let script = [large.as_str(), "# small"].map(|text| Some(file(text))).into_iter();
    let house = House::with(
        tight(),
        script.chain((2..60).map(|number| Some(file(&page(number))))).collect(),
    );
    let config = Config { bytes_max: 8 * large.len(), ..tight() };
    house.store.change(config, Arc::clone(&house.origins) as _);
    for number in 0..60 {
        house.ask(&host(number), &rfc9309()).await;
    }
    assert!(large.len() > 64 * 1024 && house.is_packed(0));
    assert_eq!(house.body(0).await, large);
    assert_eq!(house.fetches(), 60);
}

#[tokio::test]
async fn what_is_packed_is_found_however_many_wait_for_a_fetch() {
    let house = House::packed(60, vec![None]).await;
    let config = Config { fetches_max: 1, queue_max: 0, ..tight() };
    house.store.change(config, Arc::clone(&house.origins) as _);
    let slow = house.asking("slow.example", 1);
    settle().await;
    assert_eq!(house.ask("another.example", &rfc9309()).await, "busy");
    assert_eq!(house.body(0).await, page(0));
    house.clock.advance(DAY);
    assert!(house.is_packed(1));
    assert_eq!(house.ask(&host(1), &rfc9309()).await, "busy", "it would have to be fetched");
    slow.abort();
    assert_eq!(house.fetches(), 61);
}

#[tokio::test]
async fn a_pack_that_is_broken_is_forgotten() {
    let house = House::packed(60, vec![rules()]).await;
    house.store.fetches.tiers.lock().memory.break_pack(&origin(&host(0)));
    assert_eq!(house.store.get(&origin(&host(0))).await, None);
    assert_eq!(house.verdict(&host(0), &rfc9309()).await, "rules");
    assert_eq!((house.fetches(), house.store.stats().entries), (61, 60));
}
