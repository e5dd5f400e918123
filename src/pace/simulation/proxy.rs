//! One proxy of a crowd: it has always one request for the site.

use std::time::Duration;

use super::{Chance, OwnClock, Truth, now, site};
use crate::engine::{Engine, HORIZON_MAX, MemoryEngine, SlotsRequest, slack, start_window};
use crate::pace::lane::{Arrival, Config, Enqueued, Kind, Lane, Share, TurnId};
use crate::pace::tick::Tick;
use crate::types::ClientKey;
use crate::types::origin::Scheme;

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
    pub clock: OwnClock,
    lane: Lane,
    turn: Option<TurnId>,
    /// The end of its slot, and the losses before.
    slot: Option<(Tick, u64)>,
    pub reserved: usize,
    pub used: usize,
}

/// What is next for a proxy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    /// A request comes, or is to be granted its turn.
    Grant,
    /// The engine has the request for a slot, which was sent at this time.
    Decide(Truth),
    /// The response is there: the slot begins so many microseconds from the decision.
    Receive(Truth, u64),
    /// No response has come in time.
    Missed,
    /// The next slot was too far ahead before.
    Ask,
    /// The time of the turn has come.
    Start,
}

impl Proxy {
    pub(super) fn new(engine: MemoryEngine, clock: OwnClock) -> Self {
        let config = Config { concurrency: 8, ..crate::pace::Config::off().lane };
        let lane = Lane::new(config, false);
        Self { engine, clock, lane, turn: None, slot: None, reserved: 0, used: 0 }
    }

    /// Does what is next at this time; returns what follows and when, and whether a request has
    /// started.
    pub(super) fn step(
        &mut self,
        next: Next,
        truth: Truth,
        delay: Duration,
        chance: &mut Chance,
    ) -> (Truth, Next, bool) {
        let own = self.clock.at(truth);
        let (at, next) = match next {
            Next::Grant => self.grant(truth, delay, chance),
            Next::Decide(sent) => self.decide(sent, truth, chance),
            Next::Receive(sent, slot) => self.receive(sent, truth, slot, chance),
            Next::Ask => self.ask(truth, chance),
            Next::Missed => self.wait_for_part(truth, chance),
            // Without one, it has waited for its share of the pace.
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
                        return (truth, Next::Grant, true);
                    }
                }
            }
        };
        (at.max(truth), next, false)
    }

    fn needs_slot(&self, own: Tick) -> bool {
        let losses = self.engine.stats().losses();
        self.slot.is_some_and(|(end, before)| end <= own || before != losses)
    }

    fn grant(&mut self, truth: Truth, delay: Duration, chance: &mut Chance) -> (Truth, Next) {
        let own = self.clock.at(truth);
        if self.lane.waiting() == 0 {
            let kind = Kind::Page { group: "*", delay, not_before: None };
            let arrival = Arrival {
                client: &ClientKey::Proxy,
                scheme: Scheme::Https,
                kind,
                max_wait: MAX_WAIT,
            };
            if let Enqueued::TooLong { .. } = self.lane.enqueue(&arrival, own) {
                return (truth + 10 * super::SECOND, Next::Grant);
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
        if self.engine.status().is_up {
            self.set_parts(1, truth);
        }
        match chance.one_in(200) {
            is_lost if is_lost || !self.engine.status().is_up => (truth + TIMEOUT, Next::Missed),
            _ => (truth + chance.way(), Next::Decide(truth)),
        }
    }

    fn decide(&mut self, sent: Truth, truth: Truth, chance: &mut Chance) -> (Truth, Next) {
        let turn = self.turn.expect("it was granted");
        let request = self.lane.slot_request(turn, self.clock.at(sent)).expect("it has a delay");
        let losses = self.engine.stats().losses();
        let reserved = now(self.engine.reserve_slots(SlotsRequest {
            origin: &site(),
            group: &request.group,
            lane_delay: request.lane_delay,
            site_delay: request.site_delay,
            slack: slack(ROUND_TRIP, HORIZON_MAX),
            horizon: HORIZON_MAX,
            count: 1,
            left: request.left,
            missed: None,
        }));
        let received = truth + chance.way();
        let reserved = reserved.ok().filter(|_| received <= sent + TIMEOUT && !chance.one_in(200));
        let Some(reserved) = reserved else { return (sent + TIMEOUT, Next::Missed) };
        let Some(slot) = reserved.slots.first() else {
            let wait = reserved.beyond.expect("it is beyond the horizon");
            self.lane.fix_start_at(turn, self.clock.at(received) + wait);
            return (received + wait.as_micros() as u64 / 2, Next::Ask);
        };
        self.slot = Some((Tick::default(), losses));
        (received, Next::Receive(sent, slot.as_micros() as u64))
    }

    fn receive(
        &mut self,
        sent: Truth,
        truth: Truth,
        slot: u64,
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
        self.slot = self.slot.map(|(_, losses)| (Tick::after(end), losses));
        // The scheduler is late, too.
        (self.clock.truth(Tick::after(begin)).max(truth) + chance.below(5000), Next::Start)
    }

    /// The engine is missed: this proxy keeps its share of the pace.
    fn wait_for_part(&mut self, truth: Truth, chance: &mut Chance) -> (Truth, Next) {
        let status = self.engine.status();
        if status.is_up {
            // The next operation need not fail.
            return self.ask(truth + AWAY_RETRY, chance);
        }
        self.set_parts(u32::try_from(status.members).expect("a thousand"), truth);
        let at = self.lane.starts_at(self.turn.expect("it was granted")).expect("not started");
        let at = self.clock.truth(at);
        if at <= truth { (truth, Next::Start) } else { (at.min(truth + AWAY_RETRY), Next::Missed) }
    }

    /// The delays are so many times as long from this time on.
    fn set_parts(&mut self, delay_factor: u32, truth: Truth) {
        if self.lane.share().delay_factor == delay_factor {
            return;
        }
        let away = Share::away(delay_factor, self.clock.at(truth));
        self.lane.set_share(if delay_factor > 1 { away } else { Share::ALONE });
    }
}
