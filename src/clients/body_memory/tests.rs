use super::*;

const LIMIT: usize = 1 << 20;
const EACH: usize = 1 << 10;

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

/// Reserves in pieces until `key` is refused.
fn all(memory: &Arc<BodyMemory>, key: &ClientKey) -> Vec<MemoryPermit> {
    let next = || memory.reserve_request(key.clone(), EACH, usize::MAX).ok();
    std::iter::from_fn(next).collect()
}

#[test]
fn a_client_alone_has_seven_eighths_and_another_finds_room_all_the_same() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let first = all(&memory, &client(1));
    assert_eq!(first.len(), LIMIT / EACH / 8 * 7);
    assert_eq!(
        memory.reserve_request(client(1), EACH, usize::MAX).err(),
        Some(RejectReason::ClientMemory(LIMIT))
    );
    let (mut others, mut least) = (Vec::new(), usize::MAX);
    for number in 2..5 {
        let permits = all(&memory, &client(number));
        least = least.min(permits.len());
        others.push(permits);
    }
    assert!(least > 0, "none of three more is kept out");
    assert_eq!(
        memory.reserve_request(client(4), EACH, usize::MAX).err(),
        Some(RejectReason::Memory(LIMIT))
    );
    drop((first, others));
    assert_eq!(memory.counts(), (0, LIMIT));
    assert!(memory.state().clients.is_empty());
}

#[test]
fn released_memory_goes_to_the_client_that_has_less() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let mut first = all(&memory, &client(1));
    let before = all(&memory, &client(2)).len();
    first.truncate(first.len() / 2);
    let second = all(&memory, &client(2));
    assert!(second.len() > 4 * before, "{} {before}", second.len());
    let third = all(&memory, &client(1));
    assert!(third.len() < second.len(), "{} {}", third.len(), second.len());
}

#[test]
fn what_is_more_than_the_least_leaves_half_for_others() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let more: Vec<_> = std::iter::from_fn(|| memory.reserve_extra(&client(1), EACH)).collect();
    assert_eq!(more.len(), LIMIT / EACH / 2);
    assert_eq!(memory.refusals(), 1);
    assert!(memory.reserve_request(client(1), EACH, usize::MAX).is_ok());
    assert!(memory.reserve_extra(&client(2), EACH).is_some());
}

#[test]
fn a_finished_request_leaves_no_entry_in_body_memory() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let one = memory.reserve_request(client(1), 0, 1).unwrap();
    assert_eq!(
        memory.reserve_request(client(1), 0, 1).err(),
        Some(RejectReason::TooManyRequests(1))
    );
    drop(one);
    assert!(memory.state().clients.is_empty());
    assert!(memory.reserve_request(client(1), 0, 0).is_err());
}

#[test]
fn a_part_can_be_released_and_another_limit_holds_for_later_requests() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let mut permits = memory.reserve_extra(&ClientKey::Proxy, LIMIT).unwrap();
    assert!(!memory.is_ample());
    permits.shrink_to(EACH);
    permits.shrink_to(LIMIT);
    assert_eq!(memory.counts(), (EACH, LIMIT));
    memory.change(EACH);
    assert!(memory.reserve(&client(1), 1).is_err());
    drop(permits);
    assert!(memory.reserve(&client(1), EACH / 2).is_ok());
}
