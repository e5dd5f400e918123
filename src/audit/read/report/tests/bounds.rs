//! What the bounds do, and that nothing goes uncounted by them.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::super::events::Events;
use super::super::series::Series;
use super::super::tally::Tally;
use super::log::{DAY, HOUR, NOON};
use crate::audit::read::report::series::{Stretch, Stretches};
use crate::audit::read::report::tally::AgentKey;
use crate::audit::{Event, Reason};
use crate::types::timestamp::Timestamp;

fn key(number: u32) -> AgentKey {
    AgentKey { agent: Some(number.to_string()) }
}

proptest! {
    #[test]
    fn a_full_tally_is_off_by_no_more_than_it_says(
        drawn in prop::collection::vec(prop_oneof![0u32..4, 0u32..100], 1..500)
    ) {
        let mut tally: Tally<AgentKey> = Tally::bounded(8, usize::MAX);
        let mut exact: HashMap<AgentKey, u64> = HashMap::new();
        for number in &drawn {
            tally.add(key(*number), Events::one(Event::Denied));
            *exact.entry(key(*number)).or_default() += 1;
        }
        let top = tally.top(usize::MAX, |key, entry| (key.clone(), entry.events.all()));
        prop_assert!(top.rows.len() <= 8);
        let counted: HashMap<_, _> = top.rows.iter().cloned().collect();
        prop_assert_eq!(counted.values().sum::<u64>() + top.others, drawn.len() as u64);
        for (key, count) in exact {
            let counted = counted.get(&key).copied().unwrap_or_default();
            prop_assert!(counted <= count && count <= counted + top.undercount_at_most, "{:?}", key);
        }
    }

    #[test]
    fn stretches_come_to_the_minutes_that_any_of_them_covers(
        drawn in prop::collection::vec((0u64..300, 0u64..40), 0..12)
    ) {
        let minute = |number: u64| NOON.plus(Duration::from_secs(60 * number));
        let mut stretches = Stretches::default();
        let mut covered = [false; 400];
        for (from, length) in drawn {
            stretches.add(Stretch { from: minute(from), to: minute(from + length) });
            covered[from as usize..(from + length) as usize].fill(true);
        }
        let minutes = covered.iter().filter(|covered| **covered).count() as u64;
        prop_assert_eq!(stretches.sum().total.as_secs(), 60 * minutes);
        let longest = covered.split(|covered| !covered).map(<[bool]>::len).max().unwrap_or_default();
        let reported = stretches.sum().longest.map_or(0, |longest| longest.length().as_secs());
        prop_assert_eq!(reported, 60 * longest as u64);
    }
}

#[test]
fn a_key_that_is_long_makes_room_for_itself() {
    let mut tally: Tally<AgentKey> = Tally::bounded(1000, 64);
    for letter in ["a", "b", "b", "c", "c", "c"] {
        tally.add(AgentKey { agent: Some(letter.repeat(20)) }, Events::one(Event::Denied));
    }
    tally.add(AgentKey { agent: Some("d".repeat(60)) }, Events::one(Event::Denied));
    let top = tally
        .top(10, |key, entry| (key.agent.clone().unwrap()[..1].to_owned(), entry.events.all()));
    assert_eq!(top.rows, [("c".to_owned(), 3), ("d".to_owned(), 1)]);
    assert_eq!((top.others, top.undercount_at_most), (3, 2));
}

#[test]
fn outages_beyond_those_kept_apart_are_summed_up() {
    let mut stretches = Stretches::default();
    for day in 0..100 {
        let from = NOON.plus(DAY * day);
        stretches.add(Stretch { from, to: from.plus(HOUR) });
        stretches.add(Stretch { from, to: from.plus(HOUR * if day == 3 { 5 } else { 2 }) });
    }
    let sum = stretches.sum();
    assert_eq!((sum.count, sum.total), (100, HOUR * 203));
    assert_eq!(sum.longest.map(|longest| longest.from), Some(NOON.plus(DAY * 3)));
}

#[test]
fn buckets_are_as_wide_as_the_chart_needs() {
    for (last, bucket, count) in [
        (Duration::ZERO, Duration::from_secs(60), 1),
        (HOUR, Duration::from_secs(60), 61),
        (HOUR * 7, Duration::from_secs(300), 85),
        (HOUR * 20, Duration::from_secs(900), 81),
        (DAY * 3, HOUR, 73),
        (DAY * 10, HOUR * 6, 41),
        (DAY * 90, DAY, 91),
        (DAY * 365, DAY * 7, 53),
    ] {
        let mut series = Series::default();
        series.add(NOON, Reason::DisallowRule, Event::Denied);
        series.add(NOON.plus(last), Reason::RobotsUnreachable, Event::Denied);
        let over_time = series.over(None, None, 92);
        assert_eq!(Duration::from_secs(over_time.bucket_seconds), bucket, "{last:?}");
        assert_eq!(over_time.buckets.len(), count, "{last:?}");
    }
}

#[test]
fn weeks_begin_on_monday() {
    let mut series = Series::default();
    series.add(NOON, Reason::DisallowRule, Event::Denied);
    series.add(NOON.plus(DAY * 365), Reason::DisallowRule, Event::Denied);
    // NOON is on a Friday; the Monday before is four and a half days earlier.
    let monday = Timestamp::from_millis(NOON.millis() - (DAY * 9 / 2).as_millis() as u64);
    assert_eq!(series.over(None, None, 92).buckets[0].start, monday);
}

#[test]
fn a_broken_clock_makes_buckets_wide_and_no_more_of_them() {
    let mut series = Series::default();
    series.add(Timestamp::from_millis(0), Reason::DisallowRule, Event::Denied);
    series.add(NOON, Reason::DisallowRule, Event::Denied);
    series.add(Timestamp::from_millis(u64::MAX), Reason::DisallowRule, Event::Denied);
    let over_time = series.clone().over(None, None, 92);
    assert!(over_time.buckets.len() < 92, "{}", over_time.buckets.len());
    let counted: u64 = over_time.buckets.iter().flat_map(|bucket| bucket.by_reason.values()).sum();
    assert_eq!(counted, 3);
    for minute in 0..100_000 {
        series.add(
            NOON.plus(Duration::from_secs(60 * minute)),
            Reason::DisallowRule,
            Event::Denied,
        );
    }
    let over_time = series.over(Some(NOON), Some(NOON.plus(DAY)), 92);
    assert_eq!(
        over_time.buckets.len(),
        24,
        "a day in hours, as a hundred thousand minutes need them"
    );
}
