//! A lane of which this proxy has a share: slots while the engine is there, its share of the pace
//! while it is away.

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
    pub lane_delay: Duration,
    pub site_delay: Duration,
    /// The longest of the delays and holds that this proxy keeps itself.
    pub left: Duration,
}

impl Lane {
    /// This proxy's share of the pace.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Takes another share of the pace, which counts from the last starts on.
    pub const fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// What the engine has to know for a slot of the turn; `None`: it has no delay, has started or
    /// has ended.
    pub fn slot_request(&self, turn: TurnId, now: Tick) -> Option<SlotRequest> {
        // The engine counts what the other proxies have started.
        let left = self.starts_at_with(turn, Share::ALONE)?.since(now);
        let turn = self.turns.get(turn)?;
        let GroupKey::Page(group) = &turn.key else { return None };
        let lane_delay = self.lane_delay(now);
        let site_delay = self.site_delay(turn.delay);
        let has_delay = !lane_delay.is_zero() || !site_delay.is_zero();
        has_delay.then(|| SlotRequest { group: (**group).into(), lane_delay, site_delay, left })
    }

    /// The turn does not start before `begin`, nor do those after it: other proxies do. It may
    /// start then, whatever becomes of the engine.
    pub fn fix_start_at(&mut self, turn: TurnId, begin: Tick) {
        let Some(turn) = self.turns.get_mut(turn) else { return };
        turn.fixed_start = Some(begin);
        let (key, delay) = (turn.key.clone(), turn.delay);
        if delay.is_zero() {
            self.next = self.next.max(begin);
        } else {
            let group = self.group(key);
            group.next = group.next.max(begin);
        }
    }

    /// When the turn may start without a slot, by `share`; it may start then, whatever
    /// becomes of the engine. `None`: it has started or has ended.
    pub fn fix_start_with(&mut self, turn: TurnId, share: Share) -> Option<Tick> {
        let at = self.starts_at_with(turn, share)?;
        self.turns.get_mut(turn)?.fixed_start = Some(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests;
