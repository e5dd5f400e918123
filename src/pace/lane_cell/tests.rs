use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::pace::config::Config;
use crate::pace::lanes::Lanes;
use crate::pace::turn::Turn;
use crate::pace::turn_request::TurnRequest;
use crate::pace::visits::Visit;
use crate::runtime::clock::SystemClock;
use crate::types::ClientKey;
use crate::types::origin::{Origin, split_url};

fn origin() -> Origin {
    split_url(b"http://example.com/").unwrap().0
}

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

fn config(max_exchanges: usize) -> Config {
    Config { max_exchanges, ..Config::off() }
}

/// The pace is off, and at most `max` exchanges with an origin are under way.
fn lanes(max: usize) -> Arc<Lanes> {
    Lanes::new(config(max), Arc::new(SystemClock))
}

async fn within(lanes: &Lanes, client: &ClientKey, limit: Duration) -> Result<Turn, NoExchange> {
    let request = TurnRequest {
        origin: &origin(),
        client,
        mode: None,
        group: "",
        site_pace: None,
        outside_visit_time: None,
        visit: Visit::None,
        is_robots_txt: false,
        max_wait: None,
        shutdown: &CancellationToken::new(),
    };
    let mut turn = lanes.acquire(&request).await.unwrap();
    turn.wait_for_exchange(limit).await.map(|()| turn)
}

async fn at_once(lanes: &Lanes, client: &ClientKey) -> Option<Turn> {
    within(lanes, client, Duration::ZERO).await.ok()
}

/// Waits in a task of its own, and is queued when this returns.
async fn queued(
    lanes: &Arc<Lanes>,
    client: ClientKey,
    then: impl FnOnce(Turn) + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let (own, before) = (Arc::clone(lanes), waiting(lanes));
    let waiter = tokio::spawn(async move {
        then(within(&own, &client, Duration::from_secs(20)).await.unwrap());
    });
    while waiting(lanes) == before {
        tokio::task::yield_now().await;
    }
    waiter
}

fn waiting(lanes: &Lanes) -> usize {
    lanes.counts().exchanges_waiting
}

#[tokio::test]
async fn an_origin_has_a_limit() {
    let lanes = lanes(2);
    let first = at_once(&lanes, &client(1)).await.unwrap();
    let second = at_once(&lanes, &client(1)).await.unwrap();
    let third = within(&lanes, &client(1), Duration::from_millis(1)).await;
    assert_eq!(third.unwrap_err(), NoExchange { max: 2 });
    drop(first);
    drop(at_once(&lanes, &client(1)).await.unwrap());
    drop(second);
    assert_eq!((lanes.exchanges(), waiting(&lanes)), (0, 0));
}

#[tokio::test]
async fn a_waiting_client_gets_an_exchange_in_turn_with_the_others() {
    let lanes = lanes(1);
    let taken = at_once(&lanes, &client(1)).await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in [1, 1, 1, 1, 2, 2, 3] {
        let sender = sender.clone();
        queued(&lanes, client(number), move |turn| {
            sender.send(number).unwrap();
            drop(turn);
        })
        .await;
    }
    drop((taken, sender));
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    assert_eq!(served, [1, 2, 3, 1, 2, 1, 1]);
    assert_eq!((lanes.exchanges(), waiting(&lanes)), (0, 0));
}

#[tokio::test]
async fn no_client_can_have_all_exchanges_with_an_origin() {
    let lanes = lanes(16);
    let mut held = Vec::new();
    while let Some(turn) = at_once(&lanes, &client(1)).await {
        held.push(turn);
    }
    assert_eq!(held.len(), 14);
    held.push(at_once(&lanes, &client(2)).await.unwrap());
    held.push(at_once(&lanes, &ClientKey::Proxy).await.unwrap());
    assert!(at_once(&lanes, &client(2)).await.is_none());
    drop(held);
    assert_eq!(lanes.exchanges(), 0);
}

#[tokio::test]
async fn requests_that_gave_up_are_passed_over() {
    let lanes = lanes(1);
    let taken = at_once(&lanes, &client(1)).await.unwrap();
    for _ in 0..100 {
        assert!(at_once(&lanes, &client(2)).await.is_none());
    }
    assert_eq!(waiting(&lanes), 0);
    drop(taken);
    assert_eq!(lanes.exchanges(), 0);
    drop(at_once(&lanes, &client(3)).await.unwrap());
}

#[tokio::test]
async fn an_exchange_that_comes_when_its_request_has_left_goes_to_the_next() {
    let lanes = lanes(1);
    let taken = at_once(&lanes, &client(1)).await.unwrap();
    let left = queued(&lanes, client(2), |_| panic!("it has left")).await;
    let next = queued(&lanes, client(3), drop).await;
    // The first is granted while its task, which is not polled before it ends, still waits.
    drop(taken);
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    next.await.unwrap();
    assert_eq!((lanes.exchanges(), waiting(&lanes)), (0, 0));
}

#[tokio::test]
async fn a_changed_limit_holds_at_once_for_an_origin_in_use() {
    let lanes = lanes(3);
    let mut held = Vec::new();
    for number in 0..2 {
        held.push(at_once(&lanes, &client(number)).await.unwrap());
    }
    lanes.change(config(1));
    assert!(at_once(&lanes, &client(3)).await.is_none());
    held.pop();
    assert!(at_once(&lanes, &client(3)).await.is_none(), "one is in use, and one is the bound");
    let (sender, granted) = tokio::sync::oneshot::channel();
    let waiter = queued(&lanes, client(3), |turn| sender.send(turn).unwrap()).await;
    lanes.change(config(2));
    waiter.await.unwrap();
    held.push(granted.await.unwrap());
    assert!(at_once(&lanes, &client(4)).await.is_none());
    held.clear();
    assert_eq!(lanes.exchanges(), 0);
}
