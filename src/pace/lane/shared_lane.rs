//! A lane of which this proxy has a part: longer delays while the engine is away, slots while it is
//! there, turns with the other proxies.

use std::time::Duration;

use super::group::GroupKey;
use super::share::Share;
use super::{Lane, TurnId};
use crate::pace::tick::Tick;

/// What the engine has to know for a slot of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The group of the robots.txt.
    pub group: Box<str>,
    pub own_delay: Duration,
    pub asked_delay: Duration,
    /// The longest that this proxy remembers by itself of delays and holds.
    pub left: Duration,
}

impl Lane {
    /// This proxy's part of the pace.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Takes another part of the pace. The next starts move by what the delays become longer or
    /// shorter, from the last one.
    pub fn set_share(&mut self, share: Share) {
        let (before, after) = (self.share.delays, share.delays);
        let moved = |next: Tick, delay: Duration| {
            let by = delay.saturating_mul(before.abs_diff(after));
            if after > before { next + by } else { next - by }
        };
        if before != after {
            if self.next > Tick::default() {
                self.next = moved(self.next, self.config.delay);
            }
            for group in self.groups.iter_mut().filter(|group| group.next > Tick::default()) {
                group.next = moved(group.next, group.delay);
            }
        }
        self.share = share;
    }

    /// What the engine has to know for a slot of the turn; `None`: it has no delay, has started or
    /// has ended.
    pub fn slot_request(&self, turn: TurnId, now: Tick) -> Option<SlotRequest> {
        let left = self.starts_at(turn)?.since(now);
        let turn = self.turns.get(turn)?;
        let GroupKey::Page(group) = &turn.key else { return None };
        let own_delay = self.rate.delay(&self.config, now);
        let asked_delay = turn.delay.max(self.rate.adapted(&self.config, turn.delay));
        let has_delay = !own_delay.is_zero() || !asked_delay.is_zero();
        has_delay.then(|| SlotRequest { group: group.clone(), own_delay, asked_delay, left })
    }

    /// The turn, and those after it, do not start before `begin`: other proxies do.
    pub fn put_off(&mut self, turn: TurnId, begin: Tick) {
        let Some(turn) = self.turns.get(turn) else { return };
        if turn.delay.is_zero() {
            self.next = self.next.max(begin);
        } else {
            let key = turn.key.clone();
            let group = self.group(key);
            group.next = group.next.max(begin);
        }
    }

    /// The lane's own delay, as this proxy keeps it.
    pub(super) fn own(&self, now: Tick) -> Duration {
        self.rate.delay(&self.config, now).saturating_mul(self.share.delays)
    }

    /// What the site asks of a group, as this proxy keeps it.
    pub(super) fn asked(&self, delay: Duration) -> Duration {
        let delay = delay.max(self.rate.adapted(&self.config, delay));
        delay.saturating_mul(self.share.delays)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, Arrived, Config, Kind};
    use super::*;
    use crate::types::client_key::ClientKey;

    const DELAY: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn page() -> Arrival<'static> {
        let kind = Kind::Page { group: "*", delay: DELAY, opens: None };
        Arrival { client: &ClientKey::Proxy, kind, patience: 100 * DELAY }
    }

    fn lane(concurrency: usize) -> Lane {
        Lane::new(Config { concurrency, ..crate::pace::Config::off().lane }, false)
    }

    /// The next turn, granted as soon as it may be.
    fn granted(lane: &mut Lane, now: Tick) -> TurnId {
        assert!(matches!(lane.arrive(&page(), now), Arrived::Waits(_)));
        lane.grant(now).expect("a turn").turn
    }

    #[test]
    fn delays_are_as_many_times_as_long_as_there_are_parts() {
        let mut lane = lane(8);
        let turn = granted(&mut lane, at(100));
        lane.begin(turn, at(100));
        lane.end(turn);
        let wait = |lane: &Lane| lane.estimate(&page(), at(104)).as_secs();
        assert_eq!(wait(&lane), 6);
        lane.set_share(Share { delays: 4, here: 1 });
        assert_eq!(wait(&lane), 36, "from the last start on");
        lane.set_share(Share { delays: 2, here: 1 });
        assert_eq!(wait(&lane), 16);
        let turn = granted(&mut lane, at(120));
        lane.begin(turn, at(120));
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
        assert_eq!((&*request.group, request.asked_delay, request.left.as_secs()), ("*", DELAY, 0));
        lane.put_off(turn, at(130));
        assert_eq!(lane.start(turn, at(129)), Err(at(130)));
        assert_eq!(lane.start(turn, at(130)), Ok(()));
        assert_eq!(lane.slot_request(turn, at(130)), None, "it has started");
        lane.begin(turn, at(130));
        assert_eq!(lane.estimate(&page(), at(130)), DELAY);
    }

    #[test]
    fn proxies_at_an_origin_share_its_places_and_take_turns() {
        let undelayed = Arrival {
            kind: Kind::Page { group: "", delay: Duration::ZERO, opens: None },
            ..page()
        };
        for (here, most) in [(1, 7), (2, 4), (3, 2), (8, 1), (100, 1)] {
            let mut lane = lane(8);
            lane.set_share(Share { delays: 1, here });
            let granted = (0..8).filter(|_| lane.try_take(&undelayed, at(1)).is_some()).count();
            assert_eq!(granted, most, "{here}");
        }
        let mut lane = lane(8);
        lane.set_share(Share { delays: 1, here: 3 });
        granted(&mut lane, at(1));
        assert_eq!(lane.estimate(&page(), at(1)), 3 * DELAY, "the others start in between");
    }
}
