//! The delays between the starts at an origin: the operator's (`pace.delay`, a low quota) between
//! all of them, and the site's (Crawl-delay, Request-rate) between those of each group of its
//! robots.txt. Each start has the next one wait for its delay.

use std::time::Duration;

use super::group::Group;
use super::share::Share;
use super::turns::LaneTurn;
use super::{Lane, LaneLimit, TurnId};
use crate::pace::tick::Tick;

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
        delay.max(self.rate.adapted(&self.config, delay))
    }

    /// The delay as this proxy keeps it for its share: longer while the engine is away.
    pub(super) const fn in_share(&self, delay: Duration) -> Duration {
        delay.saturating_mul(self.share.delay_factor)
    }
}

fn lead(delay: Duration) -> Duration {
    (delay / LEAD_DIVISOR).min(LEAD_MAX)
}
