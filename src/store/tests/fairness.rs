//! Who gets to fetch where there are more fetches than places.

use super::*;

/// So long a fetch has its place while others wait, in these tests.
const SOON: Duration = Duration::from_millis(20);

fn few_places() -> Config {
    Config { fetches_max: 16, busy_wait: TIMEOUT, wait: TIMEOUT, ..Config::default() }
}

fn silent(count: usize) -> Vec<Option<Answer>> {
    (0..count).map(|_| None).collect()
}

#[tokio::test]
async fn f23_a_client_with_thousands_of_silent_hosts_leaves_places_for_others() {
    let house = House::with(few_places(), silent(16));
    let attack: Vec<_> =
        (0..4000).map(|n| house.asking(&format!("silent{n}.example"), 1)).collect();
    settle().await;
    assert_eq!(house.fetches(), 14, "two places are kept from it");
    lock(&house.origins.script).push_front(rules());
    assert_eq!(house.asking("site.example", 2).await.expect("no panic"), "rules");
    assert_eq!(house.asked().pop().as_deref(), Some("site.example"));
    assert!(attack.iter().all(|request| !request.is_finished()), "the others wait");
    attack.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn f23_clients_that_wait_take_turns() {
    let house = House::with(Config { fetches_max: 1, ..few_places() }, silent(20));
    let mut asking = vec![house.asking("first.example", 1)];
    settle().await;
    for (host, client) in [("a1", 1), ("a2", 1), ("a3", 1), ("b1", 2), ("b2", 2), ("c1", 3)] {
        asking.push(house.asking(host, client));
        settle().await;
    }
    for _ in 0..7 {
        house.answer(file(""));
        settle().await;
    }
    for request in asking {
        assert_eq!(request.await.expect("no panic"), "rules");
    }
    assert_eq!(house.asked(), ["first.example", "a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[tokio::test]
async fn f23_a_full_queue_has_room_for_a_client_with_fewer_in_it() {
    let config = Config { fetches_max: 1, queue_max: 4, ..few_places() };
    let house = House::with(config, silent(8));
    let attack: Vec<_> = (0..9).map(|n| house.asking(&format!("silent{n}.example"), 1)).collect();
    settle().await;
    let busy = async |attack: &[tokio::task::JoinHandle<_>]| {
        settle().await;
        attack.iter().filter(|request| request.is_finished()).count()
    };
    assert_eq!(busy(&attack).await, 4, "one is under way, and four wait");
    let victim = house.asking("site.example", 2);
    assert_eq!(busy(&attack).await, 5, "one more of them makes room");
    for _ in 0..3 {
        house.answer(file(""));
        settle().await;
    }
    assert_eq!(victim.await.expect("no panic"), "rules", "the second turn is its client's");
    attack.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn f23_a_fetch_that_no_request_waits_for_gives_up_its_place_first() {
    let house = House::with(Config { fetches_max: 2, ..few_places() }, silent(3));
    let left = house.asking("left.example", 1);
    let waited_for = house.asking("waited.example", 1);
    settle().await;
    left.abort();
    settle().await;
    assert_eq!(house.store.stats().flights, 2, "it goes on while its place is not needed");
    let next = house.asking("next.example", 1);
    settle().await;
    assert_eq!(house.asked(), ["left.example", "waited.example", "next.example"]);
    drop(lock(&house.origins.held).remove(0));
    house.answer(file(""));
    house.answer(file(""));
    assert_eq!(waited_for.await.expect("no panic"), "rules");
    assert_eq!(next.await.expect("no panic"), "rules");
}

#[tokio::test]
async fn f23_a_fetch_belongs_to_each_client_that_waits_for_it() {
    let house = House::with(Config { fetches_max: 2, ..few_places() }, silent(3));
    let (left, shared) = (house.asking("site.example", 1), house.asking("site.example", 2));
    let other = house.asking("other.example", 1);
    settle().await;
    left.abort();
    let next = house.asking("next.example", 1);
    settle().await;
    assert_eq!(house.fetches(), 2, "each is waited for");
    house.answer(file(""));
    assert_eq!(shared.await.expect("no panic"), "rules");
    settle().await;
    house.answer(file(""));
    house.answer(file(""));
    assert_eq!(other.await.expect("no panic"), "rules");
    assert_eq!(next.await.expect("no panic"), "rules");
}

#[tokio::test]
async fn f23_silent_hosts_are_given_up_sooner_where_others_wait() {
    let config = Config { busy_wait: SOON, ..few_places() };
    let house = House::with(config, silent(14));
    let dead: Vec<_> = (0..14).map(|n| house.asking(&format!("dead{n}.example"), 1)).collect();
    settle().await;
    assert_eq!(house.fetches(), 14);
    lock(&house.origins.script).push_back(rules());
    assert_eq!(house.asking("live.example", 1).await.expect("no panic"), "rules");
    settle().await;
    let given_up: Vec<_> = dead.iter().filter(|request| request.is_finished()).collect();
    assert_eq!(given_up.len(), 1, "one place is as many as are needed");
    assert_eq!(house.store.stats().entries, 1, "nothing is known of the one that was given up");
    for request in dead {
        if request.is_finished() {
            assert_eq!(request.await.expect("no panic"), "busy");
        } else {
            request.abort();
        }
    }
}

#[tokio::test]
async fn f23_a_client_with_fewer_places_gets_those_of_clients_with_more() {
    let config = Config { fetches_max: 8, busy_wait: SOON, ..few_places() };
    let house = House::with(config, silent(100));
    // Eight addresses of one attacker, which take all places.
    let attack: Vec<_> =
        (0..64).map(|n| house.asking(&format!("silent{n}.example"), 1 + n % 4)).collect();
    settle().await;
    assert_eq!(house.fetches(), 8);
    let mut sites = Vec::new();
    for host in ["a.example", "b.example"] {
        sites.push(house.asking(host, 99));
    }
    let asked = |host: &str| house.asked().iter().any(|asked| asked == host);
    while !asked("a.example") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    attack.iter().chain(&sites).for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn f23_refreshes_yield_to_fetches_that_are_waited_for() {
    let house =
        House::with(Config { fetches_max: 1, ..few_places() }, vec![rules(), None, rules()]);
    assert_eq!(house.ask("old.example", &rfc9309()).await, "rules");
    // The last tenth of its life.
    house.clock.advance(DAY * 19 / 20);
    assert_eq!(house.ask("old.example", &rfc9309()).await, "rules");
    settle().await;
    assert_eq!(house.fetches(), 2, "a refresh is under way");
    assert_eq!(house.asking("new.example", 1).await.expect("no panic"), "rules");
    assert_eq!(house.asked(), ["old.example", "old.example", "new.example"]);
    assert_eq!(house.ask("old.example", &rfc9309()).await, "rules", "its copy serves");
}

#[tokio::test]
async fn f23_who_joins_a_fetch_that_is_being_given_up_begins_another() {
    let house = House::with(Config { fetches_max: 1, ..few_places() }, silent(3));
    let left = house.asking("site.example", 1);
    settle().await;
    let other = house.asking("other.example", 2);
    settle().await;
    // Its place is needed as soon as it is left, and another client comes before it has ended.
    left.abort();
    let joined = house.asking("site.example", 3);
    settle().await;
    assert_eq!(house.asked(), ["site.example", "other.example"]);
    drop(lock(&house.origins.held).remove(0));
    house.answer(file(""));
    settle().await;
    house.answer(file(""));
    assert_eq!(other.await.expect("no panic"), "rules");
    assert_eq!(joined.await.expect("no panic"), "rules");
    assert_eq!(house.fetches(), 3);
}
