//! The groups of a lane: those with a request that may be granted a turn, and those that need not
//! be remembered.

use super::Lane;
use super::group::{Group, GroupKey};
use super::kind::Kind;
use crate::pace::tick::Tick;
use crate::types::client_key::ClientKey;

/// Groups of one robots.txt that a lane tells apart at a time; further ones keep one delay together.
const GROUPS_MAX: usize = 64;

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

    /// The group of requests of this kind, if it is remembered.
    pub(super) fn group_of(&self, kind: Kind<'_>) -> Option<&Group> {
        let own = self.groups.iter().find(|group| group.key.is_of(kind));
        if own.is_some() || !kind.is_page() || self.groups.len() < GROUPS_MAX {
            return own;
        }
        let others = GroupKey::of_others();
        self.groups.iter().find(|group| group.key == others)
    }

    /// The group of `key`, made if need be.
    pub(super) fn group(&mut self, mut key: GroupKey) -> &mut Group {
        let find = |key: &GroupKey| self.groups.iter().position(|group| group.key == *key);
        let mut at = find(&key);
        if at.is_none() && key.is_page() && self.groups.len() >= GROUPS_MAX {
            key = GroupKey::of_others();
            at = find(&key);
        }
        let at = at.unwrap_or_else(|| {
            // Most lanes have one group; a vector makes room for four at once.
            self.groups.reserve_exact(1);
            self.groups.push(Group::new(key));
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }

    /// The memory that the lane takes beside itself, apart from that of its requests.
    pub fn heap_bytes(&self) -> usize {
        let names = self.groups.iter().map(|group| group.key.heap_bytes()).sum::<usize>();
        self.groups.capacity() * size_of::<Group>() + names + self.holds.heap_bytes()
    }
}
