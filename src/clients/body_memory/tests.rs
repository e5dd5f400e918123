use super::*;

const LIMIT: usize = 1 << 20;
const EACH: usize = 1 << 10;

fn client(number: u8) -> ClientKey {
    ClientKey::of([192, 0, 2, number].into())
}

/// Reserves in pieces until `key` is refused.
fn all(memory: &Arc<BodyMemory>, key: &ClientKey) -> Vec<MemoryPermit> {
    let next = || memory.begin(key.clone(), EACH, usize::MAX).ok();
    std::iter::from_fn(next).collect()
}

#[test]
fn a_client_alone_has_seven_eighths_and_another_finds_room_all_the_same() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let first = all(&memory, &client(1));
    assert_eq!(first.len(), LIMIT / EACH / 8 * 7);
    assert_eq!(
        memory.begin(client(1), EACH, usize::MAX).err(),
        Some(RejectReason::ClientMemory(LIMIT))
    );
    let (mut others, mut least) = (Vec::new(), usize::MAX);
    for number in 2..5 {
        let held = all(&memory, &client(number));
        least = least.min(held.len());
        others.push(held);
    }
    assert!(least > 0, "none of three more is kept out");
    assert_eq!(memory.begin(client(4), EACH, usize::MAX).err(), Some(RejectReason::Memory(LIMIT)));
    drop((first, others));
    assert_eq!(memory.counts(), (0, LIMIT));
    assert!(memory.state().clients.is_empty());
}

#[test]
fn what_comes_back_goes_to_who_holds_less() {
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
    let more: Vec<_> = std::iter::from_fn(|| memory.more(&client(1), EACH)).collect();
    assert_eq!(more.len(), LIMIT / EACH / 2);
    assert_eq!(memory.waits(), 1);
    assert!(memory.begin(client(1), EACH, usize::MAX).is_ok());
    assert!(memory.more(&client(2), EACH).is_some());
}

#[test]
fn requests_are_counted_with_it_and_leave_no_entry() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let one = memory.begin(client(1), 0, 1).unwrap();
    assert_eq!(memory.begin(client(1), 0, 1).err(), Some(RejectReason::TooManyRequests(1)));
    drop(one);
    assert!(memory.state().clients.is_empty());
    assert!(memory.begin(client(1), 0, 0).is_err());
}

#[test]
fn a_part_can_be_given_back_and_another_limit_holds_for_what_comes() {
    let memory = Arc::new(BodyMemory::new(LIMIT));
    let mut held = memory.more(&ClientKey::Proxy, LIMIT).unwrap();
    assert!(!memory.is_ample());
    held.shrink_to(EACH);
    held.shrink_to(LIMIT);
    assert_eq!(memory.counts(), (EACH, LIMIT));
    memory.change(EACH);
    assert!(memory.keep(&client(1), 1).is_err());
    drop(held);
    assert!(memory.keep(&client(1), EACH / 2).is_ok());
}
