//! Parts of the pace, slots, and the pace of all proxies together.

use super::*;
use crate::engine::Rank;
use crate::pace::hold::Outcome;
use crate::pace::lane::{Arrival, Config, Enqueued, Kind, LaneLimit};
use crate::types::ClientKey;
use crate::types::origin::Scheme;

const DELAY: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Tick {
    Tick::from_micros(seconds * 1_000_000)
}

fn page() -> Arrival<'static> {
    let kind = Kind::Page { group: "*", delay: DELAY, not_before: None };
    Arrival { client: &ClientKey::Proxy, scheme: Scheme::Https, kind, max_wait: 100 * DELAY }
}

fn lane(concurrency: usize) -> Lane {
    Lane::new(Config { concurrency, ..crate::pace::Config::off().lane }, false)
}

/// The next turn, granted as soon as it may be.
fn granted(lane: &mut Lane, now: Tick) -> TurnId {
    assert!(matches!(lane.enqueue(&page(), now), Enqueued::Waits(_)));
    lane.grant(now).expect("a turn").turn
}

#[test]
fn a_slot_puts_off_a_turn_and_those_after_it() {
    let mut lane = lane(8);
    let turn = granted(&mut lane, at(100));
    let request = lane.slot_request(turn, at(100)).expect("it has a delay");
    assert_eq!((&*request.group, request.site_delay, request.left.as_secs()), ("*", DELAY, 0));
    lane.fix_start_at(turn, at(130));
    assert_eq!(lane.start(turn, at(129)), Err(at(130)));
    assert_eq!(lane.start(turn, at(130)), Ok(()));
    assert_eq!(lane.slot_request(turn, at(130)), None, "it has started");
    lane.record_start(turn, at(130));
    assert_eq!(lane.estimate(&page(), at(130)), DELAY);
}

#[test]
fn proxies_at_an_origin_share_its_places_and_take_turns() {
    let undelayed = Arrival {
        kind: Kind::Page { group: "", delay: Duration::ZERO, not_before: None },
        ..page()
    };
    for (proxies, most) in [(1, 7), (2, 4), (3, 2), (8, 1), (100, 0)] {
        let mut lane = lane(8);
        lane.set_share(Share { proxies, ..Share::ALONE });
        let granted = (0..8).filter(|_| lane.try_acquire(&undelayed, at(1)).is_some()).count();
        assert_eq!(granted, most, "{proxies}");
    }
    let mut lane = lane(8);
    lane.set_share(Share { proxies: 3, ..Share::ALONE });
    granted(&mut lane, at(1));
    assert_eq!(lane.estimate(&page(), at(1)), 3 * DELAY, "the others start in between");
}

#[test]
fn without_the_engine_the_parts_of_all_proxies_are_its_places() {
    let undelayed = Arrival {
        kind: Kind::Page { group: "", delay: Duration::ZERO, not_before: None },
        ..page()
    };
    for (concurrency, highest) in [(8, 2), (8, 7), (2, 4), (1, 0), (3, 1)] {
        let mut all = 0;
        for rank in 0..=highest {
            let mut lane = lane(concurrency);
            let rank = Rank { rank, highest, is_settled: true };
            lane.set_share(Share { rank: Some(rank), ..Share::ALONE });
            let part = rank.part_of(concurrency);
            all += part;
            assert_eq!(lane.try_acquire(&undelayed, at(1)).is_some(), part > 0, "{rank:?}");
        }
        assert!(all <= concurrency, "{all} of {concurrency}");
    }
}

#[test]
fn a_proxy_without_a_part_of_the_places_sends_what_has_a_delay() {
    let mut lane = lane(2);
    let rank = Rank { rank: 3, highest: 3, is_settled: true };
    lane.set_share(Share { rank: Some(rank), ..Share::ALONE });
    let turn = granted(&mut lane, at(100));
    lane.record_start(turn, at(100));
    assert_eq!(lane.estimate(&page(), at(100)), DELAY, "its cell is not known here");
}

#[test]
fn a_delay_of_a_group_that_grew_because_the_site_is_slow_is_told_as_adapt() {
    for (latency, by) in [(1, LaneLimit::SiteDelay), (30, LaneLimit::Adapt)] {
        let mut lane = lane(8);
        let turn = granted(&mut lane, at(100));
        lane.record_start(turn, at(100));
        lane.note(turn, Outcome::Good, at(100 + latency), 0.0);
        lane.end(turn);
        let now = at(100 + latency);
        let turn = granted(&mut lane, now.max(at(110)));
        lane.record_start(turn, now);
        assert_eq!(lane.limit(&page(), now), by, "{latency}");
        let next = lane.add_turn(ClientKey::Proxy, GroupKey::of(page().kind), DELAY, now);
        assert_eq!(lane.delaying_limit(next, now), Some(by));
    }
}
