//! How long one more request would wait, and for which limit of the lane.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::config::{Kind, Share};
use super::group::{Group, GroupKey};
use super::turns::LaneTurn;
use super::{Arrival, Lane, TurnId};
use crate::pace::tick::Tick;

/// The limit of a lane that makes a request wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneLimit {
    /// The operator's delay, or a low quota.
    Delay,
    /// The delay that the site asks of the group.
    SiteDelay,
    /// As many requests as may be are under way.
    Concurrency,
    Hold,
    /// The site is slow.
    Adapt,
    /// The engine is away, and this proxy takes its share of the pace.
    Share,
}

impl Lane {
    /// How long one more request would wait, as far as delays and holds decide: without a delay it
    /// is not known, and the longest wait of the request decides.
    pub fn estimate(&self, arrival: &Arrival<'_>, now: Tick) -> Duration {
        let Kind::Page { delay, not_before, .. } = arrival.kind else {
            return self.holds.until(arrival.client).since(now);
        };
        let group = self.group_of(arrival.kind);
        // The robots.txt of the other scheme may ask for more.
        let longest = group.map_or(delay, |group| group.delay().max(delay));
        let (own, site) = (self.lane_delay(now), self.site_delay(longest));
        let of_group = group.map_or(Tick::default(), |group| group.next);
        let next = self.next_by_lane().max(self.share.extended(of_group, || site));
        let unstarted = match group {
            _ if !own.is_zero() => self.turns.unstarted(None),
            Some(group) => self.turns.unstarted(Some(&group.key)),
            None => 0,
        };
        let ahead = group.map_or(0, |group| group.queue.ahead_of(arrival.client)) + unstarted;
        // The other proxies start in between.
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX).saturating_mul(self.share.proxies);
        let unknown = if self.history_lost { Tick::default() + delay } else { Tick::default() };
        let first = next
            .max(self.holds.until(arrival.client))
            .max(not_before.unwrap_or_default())
            .max(unknown);
        first.since(now).saturating_add(self.in_share(own.max(site)).saturating_mul(ahead))
    }

    /// The limit that one more request would wait for.
    pub fn limit(&self, arrival: &Arrival<'_>, now: Tick) -> LaneLimit {
        let kind = arrival.kind;
        let group = self.group_of(kind);
        let next = group.map_or(Tick::default(), |group| group.next);
        let hold = self.holds.at(arrival.client, now).map(|hold| hold.until);
        let own = self.lane_delay(now);
        if hold.is_some_and(|until| until >= self.next.max(next)) {
            LaneLimit::Hold
        } else if !kind.is_page() || own.is_zero() && kind.delay().is_zero() {
            LaneLimit::Concurrency
        } else if self.share.delay_factor > 1 {
            LaneLimit::Share
        } else if own.is_zero() || next > self.next {
            self.site_delay_limit(kind.delay())
        } else if own > self.rate.unadapted(&self.config, now) {
            LaneLimit::Adapt
        } else {
            LaneLimit::Delay
        }
    }
}

// A lane of which this proxy has a share: slots while the engine is there, its share of the pace
// while it is away.

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

// The delays between the starts at an origin: the operator's (`pace.delay`, a low quota) between
// all of them, and the site's (Crawl-delay, Request-rate) between those of each group of its
// robots.txt. Each start has the next one wait for its delay.

/// A turn is granted at most so long before its start: the time to connect.
pub const LEAD_MAX: Duration = Duration::from_secs(1);
/// The lead is at most this part of the delay.
const LEAD_DIVISOR: u32 = 2;

impl Lane {
    /// The moment at which the turn may start: later than granted, if a hold has begun meanwhile.
    /// `None`: it has started or ended.
    pub fn starts_at(&self, turn: TurnId) -> Option<Tick> {
        let turn = self.turns.get(turn).filter(|turn| !turn.has_started)?;
        Some(match turn.fixed_start {
            Some(fixed_start) => self.holds.until(&turn.client).max(fixed_start),
            None => self.delayed_start(turn, self.share),
        })
    }

    /// The turn's request starts at `start`, or its head was written then, which is more exact: the
    /// next ones are a delay later.
    pub fn record_start(&mut self, turn: TurnId, start: Tick) {
        let Some(turn) = self.turns.get_mut(turn) else { return };
        (turn.granted_or_started, turn.has_started) = (start, true);
        let own = self.rate.delay(&self.config, start);
        if !turn.key.is_page() || own.is_zero() && turn.delay.is_zero() {
            return;
        }
        let (key, delay) = (turn.key.clone(), turn.delay);
        self.next = self.next.max(start + own);
        let delay = self.site_delay(delay);
        if !delay.is_zero() {
            let group = self.group(key);
            group.next = group.next.max(start + delay);
        }
    }

    /// The moment from which delays let the group have a turn: the lead before its start.
    pub(super) fn ready_at(&self, group: &Group, own: Duration) -> Tick {
        if !group.key.is_page() {
            return Tick::default();
        }
        let by_lane = self.next_by_lane() - lead(own);
        let by_group = self.next_by_group(group) - lead(group.delay());
        by_lane.max(by_group)
    }

    /// The lane's own delay, whatever the site asks of a group.
    pub fn lane_delay(&self, now: Tick) -> Duration {
        self.rate.delay(&self.config, now)
    }

    /// Which delay is the longer one for the turn.
    pub fn delaying_limit(&self, turn: TurnId, now: Tick) -> Option<LaneLimit> {
        let site = self.turns.get(turn)?.delay;
        let own = self.lane_delay(now);
        Some(if self.site_delay(site) >= own {
            self.site_delay_limit(site)
        } else if own > self.rate.unadapted(&self.config, now) {
            LaneLimit::Adapt
        } else {
            LaneLimit::Delay
        })
    }

    /// The limit of a delay that the site asks for: [`LaneLimit::Adapt`] if it is kept longer,
    /// because the site is slow.
    pub(super) fn site_delay_limit(&self, site: Duration) -> LaneLimit {
        if self.site_delay(site) > site { LaneLimit::Adapt } else { LaneLimit::SiteDelay }
    }

    /// When the turn may start, by its holds, and by its delays as they are with `share`.
    pub fn starts_at_with(&self, turn: TurnId, share: Share) -> Option<Tick> {
        let turn = self.turns.get(turn).filter(|turn| !turn.has_started)?;
        Some(self.delayed_start(turn, share))
    }

    /// The same of a turn that has not started.
    pub(super) fn delayed_start(&self, turn: &LaneTurn, share: Share) -> Tick {
        let held_until = self.holds.until(&turn.client);
        if !turn.key.is_page() {
            return held_until;
        }
        let group = self.groups.iter().find(|group| group.key == turn.key);
        let next = group.map_or(Tick::default(), |group| group.next);
        let by_lane = share.extended(self.next, || self.lane_delay(share.since));
        held_until.max(by_lane).max(share.extended(next, || self.site_delay(turn.delay)))
    }

    /// The next start by the lane's own delay, with this proxy's share.
    pub(super) fn next_by_lane(&self) -> Tick {
        self.share.extended(self.next, || self.lane_delay(self.share.since))
    }

    /// The next start of a group, likewise.
    pub(super) fn next_by_group(&self, group: &Group) -> Tick {
        self.share.extended(group.next, || self.site_delay(group.delay()))
    }

    /// Whether something lies ahead by the lane's own delay.
    pub(super) fn is_lane_delayed(&self, now: Tick) -> bool {
        self.share.lasts(self.next, self.lane_delay(now), now)
    }

    /// Whether something lies ahead by the delay of a group.
    pub(super) fn is_group_delayed(&self, group: &Group, now: Tick) -> bool {
        self.share.lasts(group.next, self.site_delay(group.delay()), now)
    }

    /// What the site asks of a group, and more if the site is slow.
    pub(super) fn site_delay(&self, delay: Duration) -> Duration {
        delay.max(self.rate.adapted(delay))
    }

    /// The delay as this proxy keeps it for its share: longer while the engine is away.
    pub(super) const fn in_share(&self, delay: Duration) -> Duration {
        delay.saturating_mul(self.share.delay_factor)
    }
}

fn lead(delay: Duration) -> Duration {
    (delay / LEAD_DIVISOR).min(LEAD_MAX)
}
