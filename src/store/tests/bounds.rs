//! What is reached when a bound is reached.

use super::*;

#[tokio::test]
async fn nobody_waits_beyond_the_deadline() {
    let config = Config { wait: Duration::from_millis(5), ..Config::default() };
    let house = House::with(config, vec![None]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "timed out");
    assert_eq!(house.store.stats().flights, 1, "the fetch goes on");
}

#[tokio::test]
async fn waiting_for_a_turn_counts_and_who_leaves_needs_none() {
    let wait = Duration::from_millis(5);
    let config = Config { fetches_max: 1, ..Config::default() };
    let house = House::with(Config { wait, ..config.clone() }, vec![None, rules()]);
    house.store.change(Config { wait: TIMEOUT, ..config.clone() }, Arc::clone(&house.origins) as _);
    let first = house.asking("a.example", 1);
    settle().await;
    house.store.change(Config { wait, ..config }, Arc::clone(&house.origins) as _);
    assert_eq!(house.ask("b.example", &rfc9309()).await, "timed out");
    settle().await;
    assert_eq!((house.fetches(), house.store.stats().flights), (1, 1));
    house.answer(file(""));
    assert_eq!(first.await.expect("no panic"), "rules");
    assert_eq!(house.ask("b.example", &rfc9309()).await, "rules");
}

#[tokio::test]
async fn more_fetches_or_waiters_than_there_may_be_are_turned_away() {
    let wait = Duration::from_millis(5);
    let house =
        House::with(Config { fetches_max: 1, queue_max: 0, wait, ..Config::default() }, vec![None]);
    let first = house.asking("a.example", 1);
    settle().await;
    assert_eq!(house.ask("b.example", &rfc9309()).await, "busy");
    assert_eq!(house.ask("a.example", &rfc9309()).await, "timed out", "it joins the one there is");
    assert_eq!(first.await.expect("no panic"), "timed out");
    let house = House::with(Config { waiters_max: 0, wait, ..Config::default() }, vec![rules()]);
    assert_eq!(house.ask("a.example", &rfc9309()).await, "busy");
    assert_eq!(house.store.stats().waiters, 0);
}

#[tokio::test]
async fn the_least_recently_used_goes_first() {
    let config = Config { entries_max: NonZeroUsize::new(2).expect("two"), ..Config::default() };
    let house = House::with(config, vec![rules(), rules(), rules(), rules()]);
    let profile = rfc9309();
    for host in ["a.example", "b.example", "a.example", "c.example", "a.example"] {
        assert_eq!(house.ask(host, &profile).await, "rules");
    }
    assert_eq!((house.fetches(), house.store.stats().entries), (3, 2));
    house.ask("b.example", &profile).await;
    assert_eq!(house.fetches(), 4);
}

#[tokio::test]
async fn bytes_are_bounded_and_counted_back() {
    let large = |host| room::noise(host, 10_000);
    let config = Config { bytes_max: 50_000, ..Config::default() };
    let house = House::with(config, (0..20).map(|host| Some(file(&large(host)))).collect());
    let profile = rfc9309();
    for host in 0..20 {
        assert_eq!(house.ask(&format!("{host}.example"), &profile).await, "rules");
        let stats = house.store.stats();
        assert!(stats.bytes <= 50_000, "{stats:?}");
    }
    let stats = house.store.stats();
    assert!((2..10).contains(&stats.entries) && stats.bytes > stats.entries * 5_000, "{stats:?}");
}

#[tokio::test]
async fn a_file_counts_once_however_many_origins_have_it_and_goes_with_the_last() {
    let large = "# nothing\n".repeat(1000);
    let files = (0..30).map(|host| Some(file(if host < 20 { &large } else { "# other\n" })));
    let entries_max = NonZeroUsize::new(10).expect("it is not zero");
    let house = House::with(Config { entries_max, ..Config::default() }, files.collect());
    let ask = async |hosts: std::ops::Range<usize>| {
        for host in hosts {
            assert_eq!(house.ask(&format!("{host}.example"), &rfc9309()).await, "rules");
        }
        house.store.stats()
    };
    let ten = ask(0..10).await;
    assert!((large.len()..3 * large.len()).contains(&ten.bytes), "{ten:?}");
    let ten_others = ask(10..20).await;
    assert!(ten_others.bytes.abs_diff(ten.bytes) < 100, "{ten:?} {ten_others:?}");
    let none = ask(20..30).await;
    assert!(none.bytes + large.len() / 2 < ten.bytes, "{ten:?} {none:?}");
}

#[tokio::test]
async fn what_is_too_large_to_keep_is_still_an_answer() {
    let house = House::with(Config { bytes_max: 1, ..Config::default() }, vec![rules(), rules()]);
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
    assert_eq!((house.store.stats().entries, house.store.stats().bytes), (0, 0));
    assert_eq!(house.ask("example.com", &rfc9309()).await, "rules");
}
