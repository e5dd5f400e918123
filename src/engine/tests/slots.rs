//! When requests may start.

use proptest::prelude::*;

use super::*;

const HOUR: Duration = seconds(3600);

#[test]
fn slots_of_a_group_are_its_delay_and_the_slack_apart() {
    let three = Three::new();
    assert_eq!(three.reserve_slots(&three.a, 1).slots, [ms(0)]);
    assert_eq!(three.reserve_slots(&three.b, 2).slots, [ms(10_100), ms(20_200)]);
    three.clock.advance(seconds(1));
    assert_eq!(three.reserve_slots(&three.c, 1).slots, [ms(29_300)]);
}

#[test]
fn groups_wait_for_the_lanes_own_delay_and_not_for_each_others() {
    let three = Three::new();
    let request = SlotsRequest { lane_delay: seconds(1), ..three.request() };
    assert_eq!(now(three.a.reserve_slots(request)).slots, [ms(0)]);
    let other = SlotsRequest { group: "otherbot", count: 2, ..request };
    assert_eq!(now(three.b.reserve_slots(other)).slots, [ms(1100), ms(11_200)]);
    assert_eq!(now(three.a.reserve_slots(request)).slots, [ms(12_300)]);
}

#[test]
fn a_slot_beyond_the_horizon_is_named_and_not_reserved() {
    let three = Three::new();
    let request = SlotsRequest { horizon: seconds(25), count: 4, ..three.request() };
    let reserved = now(three.a.reserve_slots(request));
    assert_eq!(reserved.slots, [ms(0), ms(10_100), ms(20_200)]);
    assert_eq!(reserved.beyond, Some(ms(30_300)));
    three.clock.advance(seconds(2));
    let reserved = now(three.b.reserve_slots(request));
    assert_eq!((reserved.slots, reserved.beyond), (vec![], Some(ms(28_300))));
}

#[test]
fn what_a_proxy_remembers_by_itself_counts_too() {
    let three = Three::new();
    let reserved = now(three.a.reserve_slots(SlotsRequest { left: seconds(7), ..three.request() }));
    assert_eq!(reserved.slots, [seconds(7)]);
}

#[test]
fn a_hold_goes_before_delays() {
    let three = Three::new();
    let hold = HoldRequest {
        origin: &three.site,
        length: HoldLength::For(seconds(30)),
        status: 503,
        cause: HoldCause::RetryAfter,
    };
    let held = now(three.a.set_hold(hold));
    let reserved = three.reserve_slots(&three.b, 1);
    assert_eq!((reserved.slots, reserved.hold), (vec![seconds(30)], Some(held)));
}

#[test]
fn a_clock_that_goes_back_costs_the_horizon_at_most() {
    let three = Three::new();
    three.reserve_slots(&three.a, 4);
    three.clock.set(START - HOUR.as_micros() as u64);
    assert_eq!(three.reserve_slots(&three.b, 1).slots, [seconds(120)], "set to the horizon");
    let three = Three::new();
    three.reserve_slots(&three.a, 4);
    three.clock.set(START - seconds(60).as_micros() as u64);
    assert_eq!(
        three.reserve_slots(&three.b, 1).slots,
        [ms(100_400)],
        "within reach: not known as a step"
    );
}

#[test]
fn without_a_record_nothing_starts_before_a_delay_after_a_loss() {
    let three = Three::new();
    now(three.a.heartbeat());
    three.reserve_slots(&three.a, 1);
    three.a.lose();
    three.clock.advance(seconds(3));
    now(three.a.heartbeat());
    three.clock.advance(seconds(1));
    assert_eq!(three.reserve_slots(&three.a, 1).slots, [seconds(9)]);
    let unpaced = SlotsRequest { site_delay: Duration::ZERO, group: "", ..three.request() };
    assert_eq!(
        now(three.a.reserve_slots(unpaced)).slots,
        [seconds(0)],
        "no delay, nothing to wait for"
    );
}

#[test]
fn a_proxy_that_comes_after_a_loss_waits_from_the_beginning_of_the_data() {
    let three = Three::new();
    three.a.lose();
    now(three.a.heartbeat());
    three.clock.advance(seconds(1));
    now(three.c.heartbeat());
    assert_eq!(three.reserve_slots(&three.c, 1).slots, [seconds(9)]);
    let three = Three::new();
    now(three.a.heartbeat());
    assert_eq!(three.reserve_slots(&three.a, 1).slots, [seconds(0)], "data from the beginning");
}

#[test]
fn groups_that_were_once_used_are_forgotten() {
    let three = Three::new();
    for number in 0..1000 {
        let group = format!("bot{number}");
        now(three.a.reserve_slots(SlotsRequest { group: &group, ..three.request() }));
        three.clock.advance(seconds(10));
    }
    let groups = three.a.dump(&three.site).len();
    assert!(groups <= 64, "{groups}");
}

proptest! {
    /// Whatever the proxies, their delays and their slack: of two slots the later begins at least
    /// the delay after the end of the earlier.
    #[test]
    fn starts_in_any_two_slots_are_a_delay_apart(
        turns in prop::collection::vec((0_usize..3, 1_u8..=4, 40_u64..200, 0_u64..15_000), 1..60),
        delay in 1_u64..60,
    ) {
        let three = Three::new();
        let (delay, mut slots) = (seconds(delay), Vec::new());
        for (proxy, count, slack, pause) in turns {
            let engine = [&three.a, &three.b, &three.c][proxy];
            let request = SlotsRequest {
                site_delay: delay, slack: ms(slack), count, ..three.request()
            };
            let at = Duration::from_micros(three.clock.now());
            let reserved = now(engine.reserve_slots(request));
            slots.extend(reserved.slots.into_iter().map(|slot| (at + slot, at + slot + ms(slack))));
            three.clock.advance(ms(pause));
        }
        slots.sort();
        for pair in slots.windows(2) {
            prop_assert!(pair[0].1 + delay <= pair[1].0, "{pair:?}");
        }
    }
}
