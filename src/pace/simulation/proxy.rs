//! One proxy of a crowd: it has always one request for the site, and sends heartbeats.

use std::sync::Arc;
use std::time::Duration;

use super::{Chance, OwnClock, SECOND, Truth, now, site};
use crate::engine::{
    AwayStart, Config as EngineConfig, Engine, GivenSlot, HORIZON_MAX, Heartbeat,
    ManualEngineClock, MemoryEngine, Pending, SlotsRequest, slack, start_window,
};
use crate::pace::lane::{Arrival, Config, Enqueued, Kind, Lane, TurnId};
use crate::pace::tick::Tick;
use crate::types::ClientKey;
use crate::types::origin::{Origin, Scheme};

/// The longest that a request waits, here.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(2500);
/// `engine.timeout`.
const TIMEOUT: Truth = 50_000;
/// As in `slot.rs`.
const AWAY_RETRY: Truth = 250_000;
/// A mean round trip to the engine.
const ROUND_TRIP: Duration = Duration::from_millis(6);

pub(super) struct Proxy {
    pub engine: MemoryEngine,
    own: Arc<ManualEngineClock>,
    pub clock: OwnClock,
    site: Origin,
    pub delay: Duration,
    lane: Lane,
    turn: Option<TurnId>,
    slot: Option<Slot>,
    /// Since when no operation was answered.
    failing: Option<Truth>,
    pub cut: Cut,
    /// It has no request now and then.
    pub has_pauses: bool,
    /// Killed, or ended in order: nothing of it happens any more.
    pub has_ended: bool,
    pub reserved: usize,
    pub used: usize,
}

/// What of the network between a proxy and the engine is broken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub requests: bool,
    pub responses: bool,
}

/// As in `slot.rs`.
#[derive(Clone, Copy, Debug)]
struct Slot {
    end: Tick,
    kind: SlotKind,
}

#[derive(Clone, Copy, Debug)]
enum SlotKind {
    Reserved(u64, Option<GivenSlot>),
    Cell,
}

/// What is next for a proxy.
pub(super) enum Next {
    /// A request comes, or is to be granted its turn.
    Grant,
    /// The engine has the request for a slot, which was sent at this time.
    Decide(Truth),
    /// The response is there: the slot begins so many microseconds from the decision.
    Receive(Truth, u64, SlotKindOf),
    /// No response has come in time.
    Missed,
    /// The next slot was too far ahead before.
    Ask,
    /// The time of the turn has come.
    Start,
    /// A heartbeat is sent; the engine has it, sent at this time; the response is there.
    Beat,
    Beaten(Truth),
    Heard(Pending<Heartbeat>),
    /// What was started without the engine is reported.
    Tell,
}

/// What the engine knew of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotKindOf(u64, Option<GivenSlot>);

impl Proxy {
    pub(super) fn new(
        first: &MemoryEngine,
        config: EngineConfig,
        delay: Duration,
        clock: OwnClock,
    ) -> Self {
        let own = ManualEngineClock::starting_at(0);
        let engine = first.beside(config).with_own_clock(Arc::clone(&own) as _);
        let config = Config { concurrency: 8, ..crate::pace::Config::off().lane };
        let lane = Lane::new(config, false);
        Self {
            engine,
            own,
            clock,
            site: site(),
            delay,
            lane,
            turn: None,
            slot: None,
            failing: None,
            cut: Cut::default(),
            has_pauses: false,
            has_ended: false,
            reserved: 0,
            used: 0,
        }
    }

    /// Sets the clock by which the proxy sees the engine.
    pub(super) fn see(&self, truth: Truth) -> Tick {
        let own = self.clock.at(truth);
        self.own.set(own.micros());
        own
    }

    /// Does what is next at this time; returns what follows and when, and whether a request has
    /// started.
    pub(super) fn step(
        &mut self,
        next: Next,
        truth: Truth,
        chance: &mut Chance,
    ) -> Option<(Truth, Next, bool)> {
        if self.has_ended {
            return None;
        }
        let own = self.see(truth);
        let (at, next) = match next {
            Next::Grant => self.grant(truth, chance),
            Next::Decide(sent) => self.decide(sent, truth, chance),
            Next::Receive(sent, slot, of) => self.receive(sent, truth, (slot, of), chance),
            Next::Ask => self.ask(truth, chance),
            Next::Missed => self.wait_for_cell(truth),
            Next::Start if self.needs_slot(own) => self.ask(truth, chance),
            Next::Start => {
                let turn = self.turn.expect("it was granted");
                match self.lane.start(turn, own) {
                    Err(at) => (self.clock.truth(at), Next::Start),
                    Ok(()) => {
                        self.used += usize::from(self.slot.take().is_some());
                        self.lane.record_start(turn, own);
                        self.lane.end(turn);
                        self.turn = None;
                        let is_pause = self.has_pauses && chance.one_in(3);
                        let pause = if is_pause { chance.below(60 * SECOND) } else { 0 };
                        return Some((truth + pause, Next::Grant, true));
                    }
                }
            }
            Next::Beat if self.cut.requests => (truth + SECOND / 2, Next::Beat),
            Next::Beat => (truth + chance.way(), Next::Beaten(truth)),
            Next::Beaten(sent) => {
                self.see(sent);
                let heard = self.engine.heartbeat();
                (truth + chance.way(), Next::Heard(heard))
            }
            Next::Heard(heartbeat) => {
                let mut interval = SECOND / 2;
                if !self.cut.responses && !chance.one_in(200) {
                    let members = now(heartbeat).expect("it is there").members;
                    interval = interval.max(members as u64 * 1000);
                }
                (truth + interval, Next::Beat)
            }
            Next::Tell => {
                if self.engine.has_to_tell() && !self.cut.requests && !self.cut.responses {
                    self.tell(own);
                }
                (truth + SECOND, Next::Tell)
            }
        };
        Some((at.max(truth), next, false))
    }

    /// As `Lanes::sync`.
    fn tell(&self, own: Tick) {
        let groups = self.lane.kept(own).map_or(Vec::new(), |lane| lane.groups);
        for (group, left) in groups {
            let request = self.request(&group, (Duration::ZERO, left), left);
            now(self.engine.reserve_slots(SlotsRequest { count: 0, ..request })).expect("there");
        }
        self.engine.end_alone();
    }

    fn request<'a>(
        &'a self,
        group: &'a str,
        (lane_delay, site_delay): (Duration, Duration),
        left: Duration,
    ) -> SlotsRequest<'a> {
        SlotsRequest {
            origin: &self.site,
            group,
            lane_delay,
            site_delay,
            cell_delay: self.delay,
            slack: slack(ROUND_TRIP, HORIZON_MAX),
            horizon: HORIZON_MAX,
            count: 1,
            left,
            missed: None,
        }
    }

    fn needs_slot(&self, own: Tick) -> bool {
        let losses = self.engine.stats().losses();
        self.slot.is_none_or(|slot| {
            slot.end <= own
                || match slot.kind {
                    SlotKind::Cell => !self.engine.start_alone(),
                    SlotKind::Reserved(before, given) => {
                        before != losses
                            || given.is_some_and(|given| !self.engine.permits(&given, self.delay))
                    }
                }
        })
    }

    fn grant(&mut self, truth: Truth, chance: &mut Chance) -> (Truth, Next) {
        let own = self.clock.at(truth);
        if self.lane.waiting() == 0 {
            let kind = Kind::Page { group: "*", delay: self.delay, not_before: None };
            let arrival = Arrival {
                client: &ClientKey::Proxy,
                scheme: Scheme::Https,
                kind,
                max_wait: MAX_WAIT,
            };
            if let Enqueued::TooLong { .. } = self.lane.enqueue(&arrival, own) {
                return (truth + 10 * SECOND, Next::Grant);
            }
        }
        match self.lane.grant(own) {
            Some(grant) => {
                self.turn = Some(grant.turn);
                self.ask(truth, chance)
            }
            None => {
                let at = self.lane.wakes_at(own).expect("one waits");
                (self.clock.truth(at).max(truth + 1), Next::Grant)
            }
        }
    }

    /// Sends a request for a slot, which may be lost.
    fn ask(&mut self, truth: Truth, chance: &mut Chance) -> (Truth, Next) {
        self.slot = None;
        if chance.one_in(200) || self.cut.requests {
            return (truth + TIMEOUT, Next::Missed);
        }
        (truth + chance.way(), Next::Decide(truth))
    }

    fn decide(&mut self, sent: Truth, truth: Truth, chance: &mut Chance) -> (Truth, Next) {
        let turn = self.turn.expect("it was granted");
        // What it knows is what it knew when it sent the request.
        let own = self.see(sent);
        let request = self.lane.slot_request(turn, own).expect("it has a delay");
        let losses = self.engine.stats().losses();
        let delays = (request.lane_delay, request.site_delay);
        let reserved =
            now(self.engine.reserve_slots(self.request(&request.group, delays, request.left)));
        let received = truth + chance.way();
        let is_heard = received <= sent + TIMEOUT && !chance.one_in(200) && !self.cut.responses;
        let Some(reserved) = reserved.ok().filter(|_| is_heard) else {
            return (sent + TIMEOUT, Next::Missed);
        };
        self.failing = None;
        let Some(slot) = reserved.slots.first() else {
            let wait = reserved.beyond.expect("it is beyond the horizon");
            self.lane.fix_start_at(turn, self.clock.at(received) + wait);
            let retry = (wait.as_micros() as u64 / 2).min(60 * SECOND);
            return (received + retry, Next::Ask);
        };
        let of = SlotKindOf(losses, reserved.given);
        (received, Next::Receive(sent, slot.as_micros() as u64, of))
    }

    fn receive(
        &mut self,
        sent: Truth,
        truth: Truth,
        (slot, SlotKindOf(losses, given)): (u64, SlotKindOf),
        chance: &mut Chance,
    ) -> (Truth, Next) {
        self.reserved += 1;
        let from_start = |truth| self.clock.at(truth).since(Tick::default());
        let (sent, received) = (from_start(sent), from_start(truth));
        let slack = slack(ROUND_TRIP, HORIZON_MAX);
        let Some((begin, end)) = start_window(sent, received, Duration::from_micros(slot), slack)
        else {
            return self.ask(truth, chance);
        };
        self.lane.fix_start_at(self.turn.expect("it was granted"), Tick::after(begin));
        self.slot = Some(Slot { end: Tick::after(end), kind: SlotKind::Reserved(losses, given) });
        // The scheduler is late, too.
        (self.clock.truth(Tick::after(begin)).max(truth) + chance.below(5000), Next::Start)
    }

    /// The engine is missed: this proxy starts in its cells.
    fn wait_for_cell(&mut self, truth: Truth) -> (Truth, Next) {
        let (turn, own) = (self.turn.expect("it was granted"), self.clock.at(truth));
        let failing = truth - *self.failing.get_or_insert(truth);
        let earliest = self.lane.starts_unfixed(turn).expect("not started").since(own);
        let retry = truth + AWAY_RETRY;
        match self.engine.away_start(self.delay, earliest, Duration::from_micros(failing)) {
            AwayStart::Within(begin, end) => {
                let at = self.clock.truth(own + begin);
                if begin > Duration::from_secs(1) {
                    return (at.min(retry), Next::Ask);
                }
                self.lane.fix_start_at(turn, own + begin);
                self.slot = Some(Slot { end: own + end, kind: SlotKind::Cell });
                (at, Next::Start)
            }
            AwayStart::NotBefore(_) | AwayStart::Never => (retry, Next::Ask),
            AwayStart::Alone => panic!("there are others"),
        }
    }
}
