//! What the outcomes of requests change in a lane: holds, the concurrency after them, quotas.

use std::time::Duration;

use super::Lane;
use super::adapt::Adapt;
use super::lane_holds::{HoldChange, HoldScope, LaneHolds};
use super::turns::TurnId;
use crate::pace::hold::{Hold, Outcome};
use crate::pace::tick::Tick;
use crate::types::client_key::ClientKey;

impl Lane {
    /// Notes how the turn's request ended, or how its response begins; [`Self::end`] is called
    /// apart. `jitter` is from 0 to 1.
    pub fn note(&mut self, turn: TurnId, outcome: Outcome, now: Tick, jitter: f64) -> HoldChange {
        let Some(turn) = self.turns.get_mut(turn) else { return HoldChange::Nothing };
        let (began, client) = (turn.granted_or_started, turn.client.clone());
        if outcome != Outcome::Ignored {
            turn.head = Some(now);
            self.rate.note_latency(now.since(began), outcome == Outcome::Good);
        }
        let (bounds, scope) = (self.config.holds, self.config.hold_scope);
        let change = self.holds.note((&client, scope), outcome, (began, now), bounds, jitter);
        let concerns_all = match change {
            HoldChange::Nothing => false,
            HoldChange::OfClient => scope == HoldScope::Origin && self.is_only_client(&client),
            HoldChange::OfAll => true,
        };
        if concerns_all {
            self.concurrency_ramp = 1;
        } else if outcome == Outcome::Good && self.holds.at(&client, now).is_none() {
            self.concurrency_ramp =
                self.concurrency_ramp.saturating_mul(2).min(self.config.concurrency).max(1);
        }
        change
    }

    /// Whether no other client has requests here.
    fn is_only_client(&self, client: &ClientKey) -> bool {
        self.waiting_of(client) == self.waiting()
            && self.turns.0.iter().all(|turn| turn.client == *client)
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

    /// The client of the turn's request holds it up, or does so no longer.
    pub fn set_stalled(&mut self, turn: TurnId, is_stalled: bool) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.is_stalled = is_stalled;
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
            || self.groups.iter().any(|group| !group.delay().is_zero())
    }

    /// The longest hold at `now`, if there is one.
    pub fn hold_at(&self, now: Tick) -> Option<Hold> {
        self.holds.longest(now)
    }

    /// The hold for all clients at `now`, if there is one.
    pub fn hold_for_all(&self, now: Tick) -> Option<Hold> {
        self.holds.for_all(now)
    }

    /// The hold at `now` for requests of `client`, if there is one.
    pub fn hold_for(&self, client: &ClientKey, now: Tick) -> Option<Hold> {
        self.holds.at(client, now)
    }

    /// The hold at `now` for the request of `turn`, if there is one.
    pub fn hold_of(&self, turn: TurnId, now: Tick) -> Option<Hold> {
        self.holds.at(&self.turns.get(turn)?.client, now)
    }

    /// Holds until `hold.until`, as after a restart.
    pub fn set_hold(&mut self, hold: Hold, now: Tick) {
        self.holds.set(hold, now);
        self.concurrency_ramp = 1;
    }

    /// Ends a hold and forgets the failures behind it.
    pub fn end_hold(&mut self) {
        self.holds = LaneHolds::new();
        self.concurrency_ramp = self.config.concurrency;
    }
}
