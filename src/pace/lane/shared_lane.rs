//! A lane of which this proxy has a part: longer delays while the engine is away, slots while it is
//! there, turns with the other proxies.

use std::time::Duration;

use super::group::{Group, GroupKey};
use super::share::Share;
use super::turns::LaneTurn;
use super::{Lane, LaneLimit, TurnId};
use crate::pace::tick::Tick;

/// What the engine has to know for a slot of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The group of the robots.txt.
    pub group: Box<str>,
    pub own_delay: Duration,
    pub asked_delay: Duration,
    /// The longest of the delays and holds that this proxy keeps itself.
    pub left: Duration,
}

impl Lane {
    /// This proxy's part of the pace.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Takes another part of the pace, which counts from the last starts on.
    pub const fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// What the engine has to know for a slot of the turn; `None`: it has no delay, has started or
    /// has ended.
    pub fn slot_request(&self, turn: TurnId, now: Tick) -> Option<SlotRequest> {
        // The engine counts what the other proxies have started.
        let left = self.starts_at_by(turn, Share::ALONE)?.since(now);
        let turn = self.turns.get(turn)?;
        let GroupKey::Page(group) = &turn.key else { return None };
        let own_delay = self.own_delay(now);
        let asked_delay = self.asked_delay(turn.delay);
        let has_delay = !own_delay.is_zero() || !asked_delay.is_zero();
        has_delay.then(|| SlotRequest { group: group.clone(), own_delay, asked_delay, left })
    }

    /// The turn does not start before `begin`, nor do those after it: other proxies do. It may start
    /// then, whatever becomes of the engine.
    pub fn put_off(&mut self, turn: TurnId, begin: Tick) {
        let Some(turn) = self.turns.get_mut(turn) else { return };
        turn.settled = Some(begin);
        let (key, delay) = (turn.key.clone(), turn.delay);
        if delay.is_zero() {
            self.next = self.next.max(begin);
        } else {
            let group = self.group(key);
            group.next = group.next.max(begin);
        }
    }

    /// Which delay is the longer one for the turn.
    pub fn delaying_limit(&self, turn: TurnId, now: Tick) -> Option<LaneLimit> {
        let asked = self.turns.get(turn)?.delay;
        let own = self.own_delay(now);
        Some(if self.asked_delay(asked) >= own {
            self.asked_limit(asked)
        } else if own > self.rate.unadapted(&self.config, now) {
            LaneLimit::Adapt
        } else {
            LaneLimit::Delay
        })
    }

    /// The limit of a delay that the site asks for: [`LaneLimit::Adapt`] if it is kept longer, because the
    /// site is slow.
    pub(super) fn asked_limit(&self, asked: Duration) -> LaneLimit {
        if self.asked_delay(asked) > asked { LaneLimit::Adapt } else { LaneLimit::Asked }
    }

    /// When the turn may start without a slot, by a part of the pace; it may start then, whatever
    /// becomes of the engine. `None`: it has started or has ended.
    pub fn settle(&mut self, turn: TurnId, share: Share) -> Option<Tick> {
        let at = self.starts_at_by(turn, share)?;
        self.turns.get_mut(turn)?.settled = Some(at);
        Some(at)
    }

    /// When the turn may start, by its delays as they are in this part of the pace, and holds.
    pub fn starts_at_by(&self, turn: TurnId, share: Share) -> Option<Tick> {
        let turn = self.turns.get(turn).filter(|turn| !turn.has_started)?;
        Some(self.unsettled_start(turn, share))
    }

    /// The same of a turn that has not started.
    pub(super) fn unsettled_start(&self, turn: &LaneTurn, share: Share) -> Tick {
        let held_until = self.holds.until(&turn.client);
        if !turn.key.is_page() {
            return held_until;
        }
        let group = self.groups.iter().find(|group| group.key == turn.key);
        let next = group.map_or(Tick::default(), |group| group.next);
        let by_lane = share.extended(self.next, || self.own_delay(share.since));
        held_until.max(by_lane).max(share.extended(next, || self.asked_delay(turn.delay)))
    }

    /// The next start by the lane's own delay, in this proxy's part of the pace.
    pub(super) fn next_own(&self) -> Tick {
        self.share.extended(self.next, || self.own_delay(self.share.since))
    }

    /// The next start of a group, likewise.
    pub(super) fn next_of(&self, group: &Group) -> Tick {
        self.share.extended(group.next, || self.asked_delay(group.delay))
    }

    /// Whether something lies ahead by the lane's own delay.
    pub(super) fn has_next_own(&self, now: Tick) -> bool {
        self.share.lasts(self.next, self.own_delay(now), now)
    }

    /// Whether something lies ahead by the delay of a group.
    pub(super) fn has_next_of(&self, group: &Group, now: Tick) -> bool {
        self.share.lasts(group.next, self.asked_delay(group.delay), now)
    }

    /// What the site asks of a group, and more if the site is slow.
    pub(super) fn asked_delay(&self, delay: Duration) -> Duration {
        delay.max(self.rate.adapted(&self.config, delay))
    }

    /// How much longer a delay is in this proxy's part.
    pub(super) const fn of_part(&self, delay: Duration) -> Duration {
        delay.saturating_mul(self.share.delays)
    }
}

#[cfg(test)]
mod tests;
