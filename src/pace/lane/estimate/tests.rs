//! Parts of the pace, slots, and the pace of all proxies together.

use proptest::prelude::*;

use super::*;
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
fn delays_are_as_many_times_as_long_as_there_are_parts() {
    let mut lane = lane(8);
    let turn = granted(&mut lane, at(100));
    lane.record_start(turn, at(100));
    lane.end(turn);
    let wait = |lane: &Lane| lane.estimate(&page(), at(104)).as_secs();
    assert_eq!(wait(&lane), 6);
    lane.set_share(Share::away(4, at(100)));
    assert_eq!(wait(&lane), 36, "from the last start on");
    lane.set_share(Share::away(2, at(100)));
    assert_eq!(wait(&lane), 16);
    let turn = granted(&mut lane, at(120));
    lane.record_start(turn, at(120));
    lane.end(turn);
    assert_eq!(lane.estimate(&page(), at(120)), 2 * DELAY);
    lane.set_share(Share::ALONE);
    assert_eq!(lane.estimate(&page(), at(120)), DELAY);
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
    for (proxies, most) in [(1, 7), (2, 4), (3, 2), (8, 1), (100, 1)] {
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
fn the_first_start_of_a_lane_while_the_engine_is_away_waits_its_part() {
    for (delay_factor, arrives, wait) in [(4, 1000, 40), (4, 1030, 10), (4, 1041, 0), (1, 1000, 0)]
    {
        let mut lane = lane(8);
        lane.set_share(Share::away(delay_factor, at(1000)));
        let estimate = lane.estimate(&page(), at(arrives));
        assert_eq!(estimate.as_secs(), wait, "{delay_factor} {arrives}");
        assert!(matches!(lane.enqueue(&page(), at(arrives)), Enqueued::Waits(_)));
        let now = at(arrives) + estimate;
        let turn = lane.grant(now).expect("a turn").turn;
        assert_eq!(lane.start(turn, now), Ok(()));
        lane.record_start(turn, now);
        lane.end(turn);
        assert_eq!(lane.estimate(&page(), now), delay_factor * DELAY, "and so do those after it");
    }
}

#[test]
fn what_others_started_just_before_the_engine_went_is_waited_for() {
    let mut lane = lane(8);
    let turn = granted(&mut lane, at(100));
    lane.record_start(turn, at(100));
    lane.end(turn);
    // Its own last start is long ago; that of another proxy may not be.
    lane.set_share(Share::away(4, at(500)));
    assert_eq!(lane.estimate(&page(), at(501)).as_secs(), 39);
}

#[test]
fn a_turn_keeps_its_slot_or_its_part_when_the_engine_goes_or_comes() {
    let mut lane = lane(8);
    let turn = granted(&mut lane, at(100));
    lane.fix_start_at(turn, at(130));
    lane.set_share(Share::away(4, at(110)));
    assert_eq!(lane.start(turn, at(129)), Err(at(130)));
    assert_eq!(lane.start(turn, at(130)), Ok(()));
    lane.record_start(turn, at(130));
    lane.end(turn);
    let next = at(170);
    assert_eq!(lane.estimate(&page(), at(130)), next.since(at(130)));

    assert!(matches!(lane.enqueue(&page(), at(169)), Enqueued::Waits(_)));
    let turn = lane.grant(next).expect("a turn").turn;
    assert_eq!(lane.fix_start_with(turn, lane.share()), Some(next));
    // The engine is there again: what has no slot is no earlier for that.
    lane.set_share(Share::ALONE);
    assert_eq!(lane.starts_at(turn), Some(next));
    assert_eq!(lane.slot_request(turn, at(140)).map(|it| it.left), Some(Duration::ZERO));
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

/// Proxies at one origin, the engine that they have until it goes, and the starts since then.
struct Parted {
    lanes: Vec<Lane>,
    /// The last start of each.
    last: Vec<Tick>,
    goes: Tick,
    /// The next slot.
    slot: Tick,
    starts: Vec<Tick>,
}

impl Parted {
    fn request(&mut self, proxy: usize, at: Tick) {
        let (goes, now) = (self.goes, self.last[proxy].max(at));
        let away = Share::away(self.lanes.len() as u32, goes);
        let lane = &mut self.lanes[proxy];
        if now >= goes {
            lane.set_share(away);
        }
        let mut start = now + lane.estimate(&page(), now);
        assert!(matches!(lane.enqueue(&page(), now), Enqueued::Waits(_)));
        let turn = lane.grant(start).expect("a turn").turn;
        if now < goes {
            start = start.max(self.slot);
            self.slot = start + DELAY;
            lane.fix_start_at(turn, start);
        }
        if start >= goes {
            lane.set_share(away);
            self.starts.push(start);
        }
        assert_eq!(lane.start(turn, start), Ok(()));
        lane.record_start(turn, start);
        lane.end(turn);
        self.last[proxy] = start;
    }
}

proptest! {
    /// E7 of the promises: whichever proxy has started last, and whichever has a slot.
    #[test]
    fn all_proxies_together_keep_the_pace_once_the_engine_is_away(
        proxies in 2_usize..7,
        goes in 0_u64..200,
        mut requests in prop::collection::vec((0_usize..6, 0_u64..600), 1..150),
    ) {
        requests.sort_by_key(|(_, at)| *at);
        let mut parted = Parted {
            lanes: (0..proxies).map(|_| lane(8)).collect(),
            last: vec![at(1000); proxies],
            goes: at(1000 + goes),
            slot: at(1000),
            starts: Vec::new(),
        };
        for (proxy, seconds) in requests {
            parted.request(proxy % proxies, at(1000 + seconds));
        }
        parted.starts.sort();
        for (before, start) in parted.starts.iter().enumerate() {
            let since = start.since(parted.goes);
            let most = since.as_micros() / DELAY.as_micros() + 1;
            prop_assert!((before as u128) < most, "{since:?}: {:?}", parted.starts);
        }
    }
}
