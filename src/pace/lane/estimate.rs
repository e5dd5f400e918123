//! How long one more request would wait, and for which limit of the lane.

use std::time::Duration;

use super::kind::Kind;
use super::{Arrival, Lane};
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
