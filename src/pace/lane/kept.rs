//! What of a lane outlives the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::config::Config;
use super::group::{AskedDelay, Group, GroupKey, GroupName};
use super::{Lane, LaneHolds};
use crate::engine::{self, LaneAhead};
use crate::pace::hold::{Cause, Hold};
use crate::pace::tick::Tick;
use crate::types::origin::Origin;

/// The times of a lane that lie ahead, from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLane {
    /// Until the next start by the lane's own delay.
    pub next: Duration,
    /// Until the next start of each group, by name.
    pub groups: Vec<(GroupName, Duration)>,
    pub hold: Option<KeptHold>,
}

/// A hold, from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHold {
    pub rest: Duration,
    pub status: u16,
    pub cause: Cause,
}

impl KeptHold {
    /// Of `hold`, from `now` on.
    pub(in crate::pace) const fn of(hold: Hold, now: Tick) -> Self {
        Self { rest: hold.until.since(now), status: hold.status, cause: hold.cause }
    }
}

impl From<engine::Hold> for KeptHold {
    fn from(hold: engine::Hold) -> Self {
        Self { rest: hold.left, status: hold.status, cause: hold.cause.into() }
    }
}

impl From<LaneAhead> for KeptLane {
    fn from(ahead: LaneAhead) -> Self {
        let groups = ahead.groups.into_iter();
        let groups = groups.map(|(name, next)| (name.into_boxed_str().into(), next));
        let hold = ahead.hold.map(KeptHold::from);
        Self { next: ahead.next, groups: groups.collect(), hold }
    }
}

impl KeptLane {
    /// As the file keeps it.
    pub fn ahead(self, lane: Origin) -> LaneAhead {
        let groups = self.groups.into_iter().map(|(name, next)| (name.to_string(), next));
        let hold = self.hold.map(|KeptHold { rest, status, cause }| engine::Hold {
            left: rest,
            status,
            cause: cause.into(),
        });
        LaneAhead { lane, next: self.next, groups: groups.collect(), hold }
    }

    /// The longest time of it.
    pub fn length(&self) -> Duration {
        let hold = self.hold.map_or(Duration::ZERO, |hold| hold.rest);
        let groups = self.groups.iter().map(|(_, next)| *next).max();
        self.next.max(hold).max(groups.unwrap_or_default())
    }

    /// So much later.
    #[must_use]
    pub fn after(mut self, time: Duration) -> Self {
        self.next = self.next.saturating_sub(time);
        for (_, next) in &mut self.groups {
            *next = next.saturating_sub(time);
        }
        if let Some(hold) = &mut self.hold {
            hold.rest = hold.rest.saturating_sub(time);
        }
        self
    }
}

impl Lane {
    /// What lies ahead at `now`; `None`: nothing.
    pub fn kept(&self, now: Tick) -> Option<KeptLane> {
        let ahead = |group: &Group| match &group.key {
            GroupKey::Page(name) if group.next > now => Some((name.clone(), group.next.since(now))),
            _ => None,
        };
        let hold = self.holds.for_all(now).map(|hold| KeptHold::of(hold, now));
        let kept = KeptLane {
            next: self.next.since(now),
            groups: self.groups.iter().filter_map(ahead).collect(),
            hold,
        };
        (kept != KeptLane::default()).then_some(kept)
    }

    /// Takes up at `now` what a former process kept. No delay is longer than `delay_max` from now,
    /// no hold longer than `hold_max`.
    pub fn restore(
        &mut self,
        kept: KeptLane,
        (delay_max, hold_max): (Duration, Duration),
        now: Tick,
    ) {
        self.next = self.next.max(now + kept.next.min(delay_max));
        for (name, next) in kept.groups {
            let group = self.group(GroupKey::Page(name));
            group.next = group.next.max(now + next.min(delay_max));
        }
        if let Some(KeptHold { rest, status, cause }) = kept.hold {
            self.set_hold(Hold { until: now + rest.min(hold_max), status, cause }, now);
        }
    }
}

// A lane that is not in use, in a fraction of its memory: an origin that is left alone for an hour
// is remembered for an hour.

/// What is remembered of a lane in which no request waits or is under way.
#[derive(Debug)]
pub struct CompactLane {
    next: Tick,
    groups: Box<[CompactGroup]>,
    holds: LaneHolds,
    latency: Option<Duration>,
    /// The requests that may be under way, if these are few after a hold.
    concurrency_ramp: Option<u32>,
    history_lost: bool,
}

/// What is remembered of a group.
#[derive(Debug)]
struct CompactGroup {
    name: GroupName,
    asked: AskedDelay,
    next: Tick,
}

impl Lane {
    /// The lane in compact form, if it is not in use and nothing of it is lost so. The lane is not
    /// to be used any more.
    pub fn compact(&mut self, now: Tick) -> Option<CompactLane> {
        if !self.is_unused() || !self.rate.is_over(now) {
            return None;
        }
        let groups = std::mem::take(&mut self.groups).into_iter();
        let groups = groups.filter(|group| group.next > now);
        let groups = groups.filter_map(|group| match group.key {
            GroupKey::Page(name) => {
                Some(CompactGroup { name, asked: group.asked, next: group.next })
            }
            GroupKey::Subresource | GroupKey::RobotsTxt => None,
        });
        let groups = groups.collect();
        Some(CompactLane {
            next: self.next,
            groups,
            holds: self.holds.compact(now),
            latency: self.rate.latency(),
            concurrency_ramp: Some(self.concurrency_ramp)
                .filter(|concurrency_ramp| *concurrency_ramp < self.config.concurrency)
                .map(|concurrency_ramp| u32::try_from(concurrency_ramp).unwrap_or(u32::MAX)),
            history_lost: self.history_lost,
        })
    }
}

impl CompactLane {
    /// The lane, to be used again, under `config`.
    pub fn expand(self, config: Config) -> Lane {
        let Self { next, groups, holds, latency, concurrency_ramp, history_lost } = self;
        let mut lane = Lane::new(config, false);
        lane.next = next;
        lane.groups = groups
            .into_iter()
            .map(|CompactGroup { name, asked, next }| Group {
                asked,
                next,
                ..Group::new(GroupKey::Page(name))
            })
            .collect();
        lane.holds = holds;
        lane.rate.set_latency(latency);
        let few = concurrency_ramp.map(|few| usize::try_from(few).unwrap_or(usize::MAX));
        lane.concurrency_ramp = few.unwrap_or(usize::MAX).min(config.concurrency);
        lane.history_lost = history_lost;
        lane
    }

    /// Whether nothing need be remembered at `now`.
    pub fn is_over(&self, now: Tick) -> bool {
        let is_past = |group: &CompactGroup| group.next <= now;
        self.next <= now && self.holds.is_over(now) && self.groups.iter().all(is_past)
    }

    /// When nothing of it lies ahead any more.
    pub fn ends_at(&self) -> Tick {
        let groups = self.groups.iter().map(|group| group.next);
        groups.fold(self.next.max(self.holds.ends_at()), Tick::max)
    }

    /// The memory that it takes beside itself.
    pub fn heap_bytes(&self) -> usize {
        let names = self.groups.iter().map(|group| group.name.heap_bytes()).sum::<usize>();
        size_of_val(&*self.groups) + names + self.holds.heap_bytes()
    }

    /// The hold at `now`, if there is one.
    pub fn hold_at(&self, now: Tick) -> Option<Hold> {
        self.holds.longest(now)
    }

    /// What lies ahead at `now`; `None`: nothing.
    pub fn kept(&self, now: Tick) -> Option<KeptLane> {
        let groups = self.groups.iter().filter(|group| group.next > now);
        let ahead = |group: &CompactGroup| (group.name.clone(), group.next.since(now));
        let kept = KeptLane {
            next: self.next.since(now),
            groups: groups.map(ahead).collect(),
            hold: self.holds.for_all(now).map(|hold| KeptHold::of(hold, now)),
        };
        (kept != KeptLane::default()).then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::hold::{Cause, Outcome};
    use crate::pace::lane::{Arrival, Enqueued, Kind};
    use crate::types::ClientKey;
    use crate::types::origin::Scheme;

    const DELAY: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn config() -> Config {
        Config { concurrency: 8, ..crate::pace::Config::off().lane }
    }

    fn page(group: &str) -> Arrival<'_> {
        let kind = Kind::Page { group, delay: DELAY, not_before: None };
        Arrival { client: &ClientKey::Proxy, scheme: Scheme::Https, kind, max_wait: 100 * DELAY }
    }

    /// A lane in which one request of the group `a` has started at `now`, and ended with `outcome`.
    fn used(now: Tick, outcome: Outcome) -> Lane {
        let mut lane = Lane::new(config(), false);
        assert!(matches!(lane.enqueue(&page("a"), now), Enqueued::Waits(_)));
        let grant = lane.grant(now).expect("a turn");
        assert_eq!(lane.start(grant.turn, now), Ok(()));
        lane.record_start(grant.turn, now);
        assert!(lane.compact(now).is_none(), "it is in use");
        lane.note(grant.turn, outcome, now, 0.0);
        lane.end(grant.turn);
        lane
    }

    #[test]
    fn a_folded_lane_remembers_what_lies_ahead() {
        let rest = Duration::from_secs(25);
        let asks = Outcome::RetryLater { status: 429, cause: Cause::RetryAfter, after: rest };
        for (outcome, of_group, of_other) in [(Outcome::Good, 10, 0), (asks, 25, 25)] {
            let mut lane = used(at(1), outcome);
            let (kept, concurrency_ramp) = (lane.kept(at(2)), lane.concurrency_ramp);
            let compact = lane.compact(at(2)).expect("no request waits or is under way");
            assert_eq!(compact.kept(at(2)), kept);
            assert!(!compact.is_over(at(2)));
            assert!(compact.is_over(at(27)));
            let lane = compact.expand(config());
            assert_eq!((lane.kept(at(2)), lane.concurrency_ramp), (kept, concurrency_ramp));
            let until = |group| lane.estimate(&page(group), at(1));
            assert_eq!((until("a"), until("b")), (secs(of_group), secs(of_other)));
        }
    }

    #[test]
    fn more_requests_are_allowed_where_the_settings_say_so() {
        let mut lane = used(at(1), Outcome::Good);
        let compact = lane.compact(at(2)).expect("no request waits or is under way");
        assert_eq!(compact.expand(Config { concurrency: 16, ..config() }).concurrency_ramp, 16);
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
}
