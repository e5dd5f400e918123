//! The groups of a lane: those with a request that may be granted a turn, and those that need not
//! be remembered.

use super::Lane;
use super::group::{Group, GroupKey};
use crate::pace::tick::Tick;
use crate::types::client_key::ClientKey;

impl Lane {
    /// The groups with a waiter that may be one more under way: the moment from which each may have
    /// a turn, and its index. Where there is a delay, a turn that has not started is the only one.
    pub(super) fn ready_groups(&self, now: Tick) -> impl Iterator<Item = (Tick, usize)> {
        let own = self.lane_delay(now);
        let is_taken = !own.is_zero() && self.turns.unstarted(None) > 0;
        let limit = self.concurrency(now);
        self.groups.iter().enumerate().filter_map(move |(at, group)| {
            let is_taken = group.key.is_page()
                && (is_taken
                    || !group.delay().is_zero() && self.turns.unstarted(Some(&group.key)) > 0);
            let counts = group.key.counts();
            let may =
                |client: &&ClientKey| !counts || self.turns.has_free_concurrency(client, limit);
            let clients = group.queue.clients().filter(|_| !is_taken).filter(may);
            let held_until = clients.map(|client| self.holds.until(client)).min()?;
            Some((self.ready_at(group, own).max(held_until), at))
        })
    }

    /// Forgets the groups of which nothing need be remembered: a file may name very many.
    pub(super) fn forget_groups(&mut self, now: Tick) {
        let groups = std::mem::take(&mut self.groups);
        let is_needed =
            |group: &Group| !self.is_over(group, now) || self.turns.unstarted(Some(&group.key)) > 0;
        self.groups = groups.into_iter().filter(is_needed).collect();
    }

    /// Whether nothing need be remembered of a group at `now`.
    pub(super) fn is_over(&self, group: &Group, now: Tick) -> bool {
        group.queue.len() == 0 && !self.is_group_delayed(group, now)
    }

    pub(super) fn group(&mut self, key: GroupKey) -> &mut Group {
        let at = self.groups.iter().position(|group| group.key == key);
        let at = at.unwrap_or_else(|| {
            // Most lanes have one group; a vector makes room for four at once.
            self.groups.reserve_exact(1);
            self.groups.push(Group::new(key));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }
}
