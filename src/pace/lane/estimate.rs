//! How long one more request would wait and for which limit of the lane, and what those wait for that are
//! in it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Share;
use super::config::Kind;
use super::group::{Group, GroupKey};
use super::turns::LaneTurn;
use super::{Arrival, Lane, TurnId, WaiterId};
use crate::pace::tick::Tick;
use crate::types::ClientKey;
use crate::types::origin::Scheme;

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
    /// The engine is away, and this proxy starts in its cells alone.
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
        let next = self.next.max(of_group);
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
        first.since(now).saturating_add(self.share.delay(own.max(site)).saturating_mul(ahead))
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
        } else if self.share.rank.is_some() {
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

// What those wait for that are in the lane.

/// What a request in the lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited<'a> {
    pub limit: LaneLimit,
    /// Between two starts, as far as this lane keeps it.
    pub delay: Duration,
    /// The group of the robots.txt, if its requests have a delay.
    pub group: Option<&'a str>,
    /// The next start, as far as time decides.
    pub next: Tick,
}

impl Lane {
    /// The turns that were granted and start later, each with its client and since when it has the
    /// turn: there is one at a time, where there is a delay.
    pub fn ahead(&self, now: Tick) -> impl Iterator<Item = (TurnId, &ClientKey, Tick)> {
        let starts_later =
            move |turn: &&LaneTurn| self.starts_at(turn.id).is_some_and(|start| now < start);
        let turns = self.turns.0.iter().filter(starts_later);
        turns.map(|turn| (turn.id, &turn.client, turn.granted_or_started))
    }

    /// Requests that have started and are not over.
    pub fn under_way(&self) -> usize {
        self.turns.0.iter().filter(|turn| turn.has_started).count()
    }

    /// What the waiter waits for.
    pub fn awaited(&self, client: &ClientKey, waiter: WaiterId, now: Tick) -> Option<Awaited<'_>> {
        let is_in = |group: &&Group| group.queue.contains(client, &waiter);
        let group = self.groups.iter().find(is_in)?;
        let kind = group.key.kind(group.delay());
        // It may wait as long as it likes, and both schemes are one lane.
        let (scheme, max_wait) = (Scheme::Https, Duration::MAX);
        let limit = self.limit(&Arrival { client, scheme, kind, max_wait }, now);
        let next = if group.key.is_page() { self.next.max(group.next) } else { Tick::default() };
        let next = next.max(self.holds.until(client));
        Some(self.awaited_by(limit, &group.key, group.delay(), next, now))
    }

    /// What the granted turn waits for.
    pub fn awaited_start(&self, turn: TurnId, now: Tick) -> Option<Awaited<'_>> {
        let (next, turn) = (self.starts_at(turn)?, self.turns.get(turn)?);
        let is_held = self.holds.until(&turn.client) >= next;
        let limit = if is_held { LaneLimit::Hold } else { self.delaying_limit(turn.id, now)? };
        Some(self.awaited_by(limit, &turn.key, turn.delay, next, now))
    }

    fn awaited_by<'a>(
        &self,
        limit: LaneLimit,
        key: &'a GroupKey,
        asked: Duration,
        next: Tick,
        now: Tick,
    ) -> Awaited<'a> {
        let own = if key.is_page() { self.lane_delay(now) } else { Duration::ZERO };
        let delay = self.share.delay(own.max(self.site_delay(asked)));
        Awaited { limit, delay, group: key.name().filter(|_| !asked.is_zero()), next }
    }
}

// A lane of which this proxy has a share: slots while the engine is there, its cells while it is away.

/// What the engine has to know for a slot of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The group of the robots.txt.
    pub group: Box<str>,
    pub lane_delay: Duration,
    pub site_delay: Duration,
    /// The delay as all proxies know it: what a slow site or a low quota adds is this one's.
    pub cell_delay: Duration,
    /// The longest of the delays and holds that this proxy keeps itself.
    pub left: Duration,
}

impl Lane {
    /// This proxy's share of the requests under way.
    pub const fn share(&self) -> Share {
        self.share
    }

    /// Takes another share.
    pub const fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    /// What the engine has to know for a slot of the turn; `None`: it has no delay, has started or
    /// has ended.
    pub fn slot_request(&self, turn: TurnId, now: Tick) -> Option<SlotRequest> {
        let left = self.starts_unfixed(turn)?.since(now);
        let turn = self.turns.get(turn)?;
        let GroupKey::Page(group) = &turn.key else { return None };
        let lane_delay = self.lane_delay(now);
        let site_delay = self.site_delay(turn.delay);
        let has_delay = !lane_delay.is_zero() || !site_delay.is_zero();
        let of_all = self.config.delay.max(turn.delay);
        let cell_delay = if of_all.is_zero() { lane_delay.max(site_delay) } else { of_all };
        let group = (**group).into();
        has_delay.then_some(SlotRequest { group, lane_delay, site_delay, cell_delay, left })
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
            None => self.delayed_start(turn),
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
        (self.next - lead(own)).max(group.next - lead(group.delay()))
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

    /// When the turn may start, by its holds and delays alone.
    pub fn starts_unfixed(&self, turn: TurnId) -> Option<Tick> {
        let turn = self.turns.get(turn).filter(|turn| !turn.has_started)?;
        Some(self.delayed_start(turn))
    }

    /// The same of a turn that has not started.
    pub(super) fn delayed_start(&self, turn: &LaneTurn) -> Tick {
        let held_until = self.holds.until(&turn.client);
        if !turn.key.is_page() {
            return held_until;
        }
        let group = self.groups.iter().find(|group| group.key == turn.key);
        let next = group.map_or(Tick::default(), |group| group.next);
        held_until.max(self.next).max(next)
    }

    /// What the site asks of a group, and more if the site is slow.
    pub(super) fn site_delay(&self, delay: Duration) -> Duration {
        delay.max(self.rate.adapted(delay))
    }
}

fn lead(delay: Duration) -> Duration {
    (delay / LEAD_DIVISOR).min(LEAD_MAX)
}
