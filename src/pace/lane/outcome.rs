//! What the outcomes of requests change in a lane: holds, the concurrency after them, quotas.

use std::time::Duration;

use super::Lane;
use super::adapt::Adapt;
use super::turns::TurnId;
use crate::pace::hold::Outcome;
use crate::pace::tick::Tick;

impl Lane {
    /// Notes how the turn's request ended, or how its response begins; [`Self::end`] is called
    /// apart. `jitter` is from 0 to 1. Returns whether a hold began or became longer.
    pub fn note(&mut self, turn: TurnId, outcome: Outcome, now: Tick, jitter: f64) -> bool {
        let Some(turn) = self.turns.get_mut(turn) else { return false };
        let (began, client) = (turn.began, (&turn.client, self.config.hold_scope));
        if outcome != Outcome::NoResponse {
            turn.head = Some(now);
            self.rate.note_latency(now.since(began), outcome == Outcome::Good);
        }
        let (is_held, is_for_all) =
            self.holds.note(client, outcome, (began, now), self.config.holds, jitter);
        if is_held && is_for_all {
            self.concurrency_ramp = 1;
        } else if outcome == Outcome::Good && self.holds.longest(now).is_none() {
            self.concurrency_ramp =
                self.concurrency_ramp.saturating_mul(2).min(self.config.concurrency).max(1);
        }
        is_held
    }

    /// Whether there were back-offs in a row.
    pub const fn has_streak(&self) -> bool {
        self.holds.has_streak()
    }

    /// Notes that the turn's response has begun, where that says nothing else.
    pub fn note_response_head(&mut self, turn: TurnId, now: Tick) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.head = Some(now);
        }
    }

    /// Spreads a low quota: starts are `delay` apart until `until`, those that follow the present
    /// ones, too.
    pub fn spread(&mut self, delay: Duration, until: Tick) {
        self.rate.spread(delay, until);
        if let Some(last) = self.turns.last_start() {
            self.next = self.next.max((last + delay).min(until));
        }
    }

    /// Limits the requests under way until `until`.
    pub const fn limit_concurrency(&mut self, concurrency: usize, until: Tick) {
        self.rate.limit_concurrency(concurrency, until);
    }

    /// Whether responses matter beyond their end: there were failures, or there is a delay.
    pub fn follows_responses(&self, now: Tick) -> bool {
        !self.holds.is_over(now, self.config.holds)
            || self.concurrency_ramp < self.config.concurrency
            || self.config.adapt == Adapt::All
            || !self.config.delay.is_zero()
            || self.groups.iter().any(|group| !group.delay.is_zero())
    }
}
