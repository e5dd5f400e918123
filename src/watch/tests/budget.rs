use std::time::Duration;

use super::super::budget::{Budget, Omitted};
use crate::audit::Omission;
use crate::types::ClientKey;
use crate::types::origin::{Origin, Scheme};
use crate::types::timestamp::Timestamp;
use crate::watch::budget::{
    CHANGED_ORIGINS_MAX, CHANGES_EVIDENCE_BYTES_MAX, CHANGES_MAX, CHANGES_OF_ORIGIN_MAX,
};

const START: Timestamp = Timestamp::from_millis(1_790_000_000_000);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn origin(number: u64) -> Origin {
    Origin::from_authority(Scheme::Https, &format!("n{number}.example")).unwrap()
}

fn client(number: u8) -> ClientKey {
    ClientKey::of([10, 0, 0, number].into())
}

fn taken(budget: &mut Budget, client: &ClientKey, count: u64, bytes: usize) -> u64 {
    (0..count).map(|number| u64::from(budget.take(&origin(number), client, bytes, START))).sum()
}

#[test]
fn an_origin_has_its_notices_a_day_and_then_a_count() {
    let (mut budget, mut noted) = (Budget::new(START), 0);
    for hour in 0..48 {
        let now = START.plus(HOUR * hour / 2);
        noted += u32::from(budget.take(&origin(0), &client(1), 0, now));
        assert_eq!(budget.due(now, false), []);
    }
    assert_eq!(noted, CHANGES_OF_ORIGIN_MAX);
    let count = 48 - u64::from(CHANGES_OF_ORIGIN_MAX);
    let expected =
        Omitted { origin: Some(origin(0)), since: START, count, why: Omission::OriginLimit };
    assert_eq!(budget.due(START.plus(HOUR * 24), false), [expected]);
    assert!(budget.take(&origin(0), &client(1), 0, START.plus(HOUR * 24)));
    assert_eq!(budget.due(START.plus(HOUR * 24), true), []);
}

#[test]
fn a_client_leaves_the_others_as_much_as_it_takes() {
    let mut budget = Budget::new(START);
    let counts = [1, 2, 3].map(|number| taken(&mut budget, &client(number), CHANGES_MAX, 0));
    assert_eq!(counts, [500, 250, 125]);
    let due = budget.due(START.plus(HOUR), false);
    assert_eq!(due.len(), 1);
    assert_eq!((due[0].count, due[0].why), (3 * CHANGES_MAX - 875, Omission::TotalLimit));
    assert!(budget.take(&origin(0), &client(1), 0, START.plus(HOUR)));
}

#[test]
fn nor_does_it_take_all_room_for_evidence() {
    let mut budget = Budget::new(START);
    let large = usize::try_from(CHANGES_EVIDENCE_BYTES_MAX / 16).unwrap();
    let counts = [1, 2].map(|number| taken(&mut budget, &client(number), 16, large));
    assert_eq!(counts, [8, 4]);
}

#[test]
fn a_clock_that_is_set_back_stops_no_notices() {
    let mut budget = Budget::new(START);
    taken(&mut budget, &client(1), CHANGES_MAX, 0);
    for _ in 0..CHANGES_OF_ORIGIN_MAX {
        budget.take(&origin(0), &client(2), 0, START);
    }
    assert!(!budget.take(&origin(0), &client(2), 0, START));
    let earlier = Timestamp::from_millis(START.millis() - 365 * 24 * 60 * 60 * 1000);
    assert!(budget.take(&origin(0), &client(2), 0, earlier));
}

#[test]
fn what_is_no_longer_counted_apart_is_said_all_the_same() {
    let mut budget = Budget::new(START);
    for _ in 0..=CHANGES_OF_ORIGIN_MAX {
        budget.take(&origin(0), &client(1), 0, START);
    }
    for number in 1..=CHANGED_ORIGINS_MAX.get() as u64 {
        budget.take(&origin(number), &client(2), 0, START);
    }
    let due = budget.due(START, false);
    assert_eq!(due.len(), 1, "{due:?}");
    assert_eq!((due[0].origin.as_ref(), due[0].count), (Some(&origin(0)), 1));
}
