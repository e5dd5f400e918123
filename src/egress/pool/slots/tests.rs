use super::*;
use crate::types::origin::split_url;

fn origin() -> Origin {
    split_url(b"http://example.com/").unwrap().0
}

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

async fn at_once(slots: &Arc<Slots>, client: &ClientKey) -> Option<Slot> {
    slots.acquire(&origin(), Requester::Client(client), Duration::ZERO).await.ok()
}

#[tokio::test]
async fn an_origin_has_a_limit_and_an_entry_only_while_in_use() {
    let slots = Slots::new(2);
    let first = at_once(&slots, &client(1)).await.unwrap();
    let second = at_once(&slots, &client(1)).await.unwrap();
    let third =
        slots.acquire(&origin(), Requester::Client(&client(1)), Duration::from_millis(1)).await;
    assert_eq!(third.unwrap_err().failure, Failure::ConnectionLimit);
    drop(first);
    at_once(&slots, &client(1)).await.unwrap();
    drop(second);
    assert!(slots.table.lock().origins.is_empty());
}

#[tokio::test]
async fn a_waiting_client_gets_a_slot_in_turn_with_the_others() {
    let slots = Slots::new(1);
    let taken = at_once(&slots, &client(1)).await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    let mut waiters = Vec::new();
    for number in [1, 1, 1, 1, 2, 2, 3] {
        let (asked, sender, before) = (Arc::clone(&slots), sender.clone(), waiting(&slots));
        waiters.push(tokio::spawn(async move {
            let slot = asked
                .acquire(&origin(), Requester::Client(&client(number)), Duration::from_secs(20))
                .await;
            sender.send(number).unwrap();
            drop(slot.unwrap());
        }));
        while waiting(&slots) == before {
            tokio::task::yield_now().await;
        }
    }
    drop((taken, sender));
    let mut served = Vec::new();
    while let Some(number) = order.recv().await {
        served.push(number);
    }
    assert_eq!(served, [1, 2, 3, 1, 2, 1, 1]);
    assert!(slots.table.lock().origins.is_empty());
}

#[tokio::test]
async fn no_client_can_have_all_slots_of_an_origin() {
    let slots = Slots::new(16);
    let mut held = Vec::new();
    while let Some(slot) = at_once(&slots, &client(1)).await {
        held.push(slot);
    }
    assert_eq!(held.len(), 14);
    held.push(at_once(&slots, &client(2)).await.unwrap());
    held.push(at_once(&slots, &ClientKey::Proxy).await.unwrap());
    assert!(at_once(&slots, &client(2)).await.is_none());
    drop(held);
    assert!(slots.table.lock().origins.is_empty());
}

#[tokio::test]
async fn waiters_that_gave_up_are_skipped_and_forgotten() {
    let slots = Slots::new(1);
    let taken = at_once(&slots, &client(1)).await.unwrap();
    for _ in 0..100 {
        assert!(at_once(&slots, &client(2)).await.is_none());
    }
    assert_eq!(waiting(&slots), 1, "the last one is passed over when its turn comes");
    drop(taken);
    assert!(slots.table.lock().origins.is_empty());
    at_once(&slots, &client(3)).await.unwrap();
}

#[tokio::test]
async fn a_changed_limit_holds_at_once_for_an_origin_in_use() {
    let slots = Slots::new(3);
    let mut held = Vec::new();
    for number in 0..2 {
        held.push(at_once(&slots, &client(number)).await.unwrap());
    }
    slots.change(1);
    assert!(at_once(&slots, &client(3)).await.is_none());
    held.pop();
    assert!(at_once(&slots, &client(3)).await.is_none(), "one is in use, and one is the bound");
    let asked = Arc::clone(&slots);
    let waiter = tokio::spawn(async move {
        asked
            .acquire(&origin(), Requester::Client(&client(3)), Duration::from_secs(20))
            .await
            .unwrap()
    });
    while waiting(&slots) == 0 {
        tokio::task::yield_now().await;
    }
    slots.change(2);
    held.push(waiter.await.unwrap());
    assert!(at_once(&slots, &client(4)).await.is_none());
    held.clear();
    assert!(slots.table.lock().origins.is_empty());
}

fn waiting(slots: &Arc<Slots>) -> usize {
    slots.table.lock().origins.values().map(|queue| queue.waiting().count()).sum()
}
