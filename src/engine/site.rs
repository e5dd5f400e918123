//! What is shared of the proxies themselves, and of one origin. `scripts/heartbeat.lua`, `lookup.lua`,
//! `publish.lua`, `renew_lease.lua` and `announce_presence.lua` compute the same; but that what was
//! asked for once lives a day on a server: here the number of origins is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::cells::{MissingRanks, RANK_KEPT, RANKS_MAX, Rank, width_of};
use crate::engine::clock::{Micros, micros};
use crate::engine::lane::{Lane, REST};
use crate::engine::members::{
    HOURS_KEPT, Heartbeat, LogHead, MISSED_MAX, NUMBER_MAX, RankClaim, against, heartbeat_interval,
    hour_place,
};
use crate::engine::{AHEAD_MAX, LEASE, LeaseToken, LookupOutcome, PLACE, PublishOutcome, member};
use crate::types::LogId;

/// A log's head is kept for 400 days.
pub(in crate::engine) const HEAD_KEPT: Micros = 400 * 24 * 60 * 60 * 1_000_000;

/// The proxies.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    members: BTreeMap<String, Member>,
    /// When the data began.
    pub epoch: Option<Micros>,
    /// The head of each log, or what contradicts it, with its proxy, and when it was noted.
    pub heads: BTreeMap<String, (Micros, String, LogHead)>,
    /// Those of the last hours that contradict none.
    hours: BTreeMap<(LogId, u64), (Micros, LogHead)>,
    /// The process of each name that beat last, and when; and another that may live.
    processes: BTreeMap<String, (String, Option<Namesake>, Micros)>,
    ranks: Ranks,
}

/// What the last heartbeat of a proxy said.
#[derive(Debug)]
struct Member {
    /// When it came.
    seen: Micros,
    /// The latest format that the proxy reads.
    format: u8,
    /// The digest of its settings.
    settings: u32,
}

/// Another process of a name, and whether it was seen to live.
type Namesake = (String, bool);

/// The ranks of the proxies. What is under a name that begins with `?` was given before data was lost,
/// and no proxy has claimed it since.
#[derive(Debug, Default)]
struct Ranks {
    ranks: BTreeMap<String, u32>,
    /// When each was seen last: for longer than among the members.
    seen: BTreeMap<String, Micros>,
    /// The width that each knows.
    widths: BTreeMap<String, u32>,
    alone: BTreeSet<String>,
    /// The missing ones as they were computed last, and until when that counts.
    missing: (Micros, Option<Arc<MissingRanks>>),
}

/// How long a rank is kept for a proxy that is missing.
const HELD: Micros = RANK_KEPT.as_micros() as Micros;

impl Ranks {
    fn remove(&mut self, member: &str) {
        self.ranks.remove(member);
        self.seen.remove(member);
        self.widths.remove(member);
        self.alone.remove(member);
    }

    /// Whether the member has not been seen lately.
    fn is_silent(&self, member: &str, missed: Micros, now: Micros) -> bool {
        self.seen.get(member).is_none_or(|seen| *seen < now.saturating_sub(missed))
    }

    fn forget(&mut self, now: Micros) {
        let held = now.saturating_sub(HELD)..=now + HELD;
        let over = self.seen.iter().filter(|(_, seen)| !held.contains(seen));
        let over: Vec<_> = over.map(|(member, _)| member.clone()).collect();
        over.iter().for_each(|member| self.remove(member));
    }

    fn highest(&self) -> Option<u32> {
        self.ranks.values().max().copied()
    }

    /// Gives a rank to `own`, unless it has one.
    fn give(
        &mut self,
        own: &str,
        claim: &RankClaim,
        epoch: Micros,
        (missed, now): (Micros, Micros),
    ) {
        if let (Some(claimed), Some(of)) = (claim.rank, claim.epoch)
            && of != epoch
        {
            let first = self.highest().map_or(0, |highest| highest + 1);
            for rank in first..=claimed.highest.min(RANKS_MAX - 1) {
                if rank != claimed.rank {
                    let name = format!("?{rank}");
                    self.seen.insert(name.clone(), now.saturating_sub(missed + 1));
                    self.ranks.insert(name, rank);
                }
            }
        }
        if self.ranks.contains_key(own) {
            return;
        }
        if let Some(claimed) = claim.rank.map(|claimed| claimed.rank) {
            self.remove(&format!("?{claimed}"));
        }
        let taken: BTreeSet<_> = self.ranks.values().copied().collect();
        let is_free = |rank: &u32| !taken.contains(rank);
        let claimed = claim.rank.map(|claimed| claimed.rank).filter(is_free);
        let lowest = (0..).find(is_free).unwrap_or(RANKS_MAX);
        let rank = claimed.unwrap_or(lowest);
        if rank < RANKS_MAX {
            self.ranks.insert(own.to_owned(), rank);
        }
    }

    /// The rank of `own`, and the missing proxies.
    fn heartbeat(
        &mut self,
        own: &str,
        claim: &RankClaim,
        epoch: Micros,
        (missed, now): (Micros, Micros),
    ) -> (Option<Rank>, Option<Arc<MissingRanks>>) {
        self.forget(now);
        self.give(own, claim, epoch, (missed, now));
        self.seen.insert(own.to_owned(), now);
        if claim.is_alone {
            self.alone.insert(own.to_owned());
        } else {
            self.alone.remove(own);
        }
        let highest = self.highest().unwrap_or(0);
        let width = width_of(highest);
        let known = claim.rank.map_or(width, |claimed| claimed.width().min(width));
        self.widths.insert(own.to_owned(), known);
        let rank = self.ranks.get(own).copied().map(|rank| {
            let is_other = |(member, width): &(&String, &u32)| **width <= rank && *member != own;
            let is_settled = self.widths.iter().find(is_other).is_none();
            Rank { rank, highest, is_settled }
        });
        if now >= self.missing.0 || self.missing.0 > now + missed {
            let silent = self.ranks.keys();
            let silent = silent.filter(|member| {
                self.alone.contains(*member) || self.is_silent(member, missed, now)
            });
            let ranks = silent.map(|member| {
                (self.ranks[member], self.widths.get(member).copied().unwrap_or(width))
            });
            let ranks: Vec<_> = ranks.collect();
            self.missing = (now + missed / MISSED_MAX, MissingRanks::of(&ranks, width));
        }
        (rank, self.missing.1.clone())
    }
}

/// What one proxy says of itself.
#[derive(Debug)]
pub(super) struct HeartbeatRequest<'a> {
    pub proxy: &'a str,
    /// Random letters of the process, or nothing.
    pub process: &'a str,
    /// Whether it is the first of its process.
    pub is_first: bool,
    /// The newest format that it reads.
    pub format: u8,
    /// The digest of its shared settings, shortened.
    pub settings: u32,
    pub head: Option<LogHead>,
    pub claim: RankClaim,
}

impl Cluster {
    /// The head of a log moves forward only: once it is contradicted, it stays as it is, and what
    /// comes later is kept beside it.
    fn note_head(&mut self, proxy: &str, head: LogHead, now: Micros) {
        let place = head.place(proxy);
        let beside = against(&place);
        let is_against = self.heads.get(&place).is_some_and(|(_, _, seen)| {
            head.is_against(seen) || seen.number <= NUMBER_MAX && self.heads.contains_key(&beside)
        });
        if let Some(log) = head.log.filter(|_| !is_against) {
            self.hours.insert((log, hour_place(now)), (now, head));
        }
        let place = if is_against { beside } else { place };
        let head = LogHead { contradicts: is_against, ..head };
        self.heads.insert(place, (now, proxy.to_owned(), head));
    }

    /// The heads of a log at the end of each of the last hours.
    pub(super) fn hours(&self, log: LogId) -> Vec<LogHead> {
        let all = self.hours.range((log, 0)..=(log, HOURS_KEPT));
        let mut heads: Vec<_> = all.map(|(_, (_, head))| *head).collect();
        heads.sort_by_key(|head| head.number);
        heads
    }

    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest<'_>, now: Micros) -> Heartbeat {
        let epoch = self.epoch.filter(|epoch| *epoch <= now + AHEAD_MAX).unwrap_or(now);
        self.epoch = Some(epoch);
        let missed = MISSED_MAX * micros(heartbeat_interval(self.members.len()));
        let seen = now.saturating_sub(missed)..=now + missed;
        self.members.retain(|_, member| seen.contains(&member.seen));
        let has_namesake = self.note_process(request, missed, now);
        let own = member(request.proxy, request.process);
        let (rank, missing) = self.ranks.heartbeat(&own, &request.claim, epoch, (missed, now));
        let HeartbeatRequest { format, settings, .. } = *request;
        self.members.insert(own, Member { seen: now, format, settings });
        if let Some(head) = request.head {
            self.note_head(request.proxy, head, now);
        }
        self.heads.retain(|_, (noted, ..)| *noted + HEAD_KEPT >= now);
        self.hours.retain(|_, (noted, _)| *noted + HEAD_KEPT >= now);
        // It is one of them.
        let (mut same_settings, mut oldest) = (0, format);
        for member in self.members.values() {
            same_settings += usize::from(member.settings == settings);
            oldest = oldest.min(member.format);
        }
        Heartbeat {
            members: self.members.len(),
            same_settings,
            format: oldest,
            now,
            epoch,
            has_namesake,
            rank,
            missing,
        }
    }

    /// Whether another process of the name lives. One that is silent has ended: its place, and its rank,
    /// are this one's.
    fn note_process(
        &mut self,
        request: &HeartbeatRequest<'_>,
        missed: Micros,
        now: Micros,
    ) -> bool {
        let HeartbeatRequest { proxy, process, is_first, .. } = *request;
        if process.is_empty() {
            return false;
        }
        let last = self.processes.get(proxy).filter(|(.., at)| *at + HELD >= now).cloned();
        let other = match last {
            Some((last, other, _)) if last == process => other,
            Some((last, ..)) => Some((last, !is_first)),
            None => None,
        };
        let other = other.filter(|(other, _)| {
            let (own, other) = (member(proxy, process), member(proxy, other));
            let is_live = !self.ranks.is_silent(&other, missed, now);
            if !is_live {
                let rank = self.ranks.ranks.get(&other).copied();
                self.members.remove(&other);
                self.ranks.remove(&other);
                if let Some(rank) = rank.filter(|_| !self.ranks.ranks.contains_key(&own)) {
                    self.ranks.ranks.insert(own, rank);
                }
            }
            is_live
        });
        let has_namesake = other.as_ref().is_some_and(|(_, is_seen)| *is_seen);
        self.processes.insert(proxy.to_owned(), (process.to_owned(), other, now));
        has_namesake
    }

    /// Forgets a proxy that ends.
    pub(super) fn leave(&mut self, proxy: &str, process: &str) {
        let own = member(proxy, process);
        self.members.remove(&own);
        self.ranks.remove(&own);
        if self.processes.get(proxy).is_some_and(|(last, ..)| last == process) {
            self.processes.remove(proxy);
        }
    }
}

/// The times that matter where proxies are at an origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct PresenceTimes {
    pub now: Micros,
    /// The time between two times of a proxy.
    pub interval: Micros,
}

/// One origin.
#[derive(Debug, Default)]
pub(super) struct Site {
    pub known: Option<Value>,
    pub lease: Option<Lease>,
    pub lane: Lane,
    /// When each proxy was seen last.
    pub presence: BTreeMap<String, Micros>,
    /// When each place that is taken is given to another.
    pub places: BTreeMap<String, Micros>,
    /// Then the announcements matter no more.
    presence_expires: Micros,
}

#[derive(Debug)]
pub(super) struct Value {
    pub token: LeaseToken,
    pub value: Bytes,
    expires: Micros,
}

impl Value {
    /// A value that is kept as long as there is room.
    pub(super) const fn lasting(token: LeaseToken, value: Bytes) -> Self {
        Self { token, value, expires: Micros::MAX }
    }
}

/// The last lease, which may be over: its token counts on.
#[derive(Debug)]
pub(super) struct Lease {
    pub token: LeaseToken,
    pub until: Micros,
    pub holder: String,
}

impl Site {
    /// With what is known, and the lease.
    pub(super) fn of(known: Option<Value>, lease: Option<Lease>) -> Self {
        Self { known, lease, ..Self::default() }
    }

    /// What is known beyond `have`, or which proxy fetches.
    pub(super) fn lookup(
        &mut self,
        have: LeaseToken,
        proxy: &str,
        may_fetch: bool,
        now: Micros,
    ) -> LookupOutcome {
        let have = have.unless_ahead(now).unwrap_or_default();
        let known = self.known_token(now).unwrap_or_default();
        if let Some(value) = self.known.as_ref().filter(|_| known > have) {
            return LookupOutcome::Newer { token: known, value: value.value.clone() };
        }
        if !may_fetch {
            return LookupOutcome::Unchanged;
        }
        let lease = self.lease.as_ref().filter(|lease| lease.token.unless_ahead(now).is_some());
        if let Some(lease) = lease.filter(|lease| lease.is_held(now) && lease.holder != proxy) {
            return LookupOutcome::Wait(std::time::Duration::from_micros(lease.until - now));
        }
        let last = lease.map_or(LeaseToken::default(), |lease| lease.token);
        let token = LeaseToken(now.max(known.0 + 1).max(last.0 + 1).max(have.0 + 1));
        let until = now + micros(LEASE);
        self.lease = Some(Lease { token, until, holder: proxy.to_owned() });
        LookupOutcome::Lease(token)
    }

    pub(super) fn publish(
        &mut self,
        token: LeaseToken,
        value: &[u8],
        keep: Micros,
        now: Micros,
    ) -> PublishOutcome {
        let known = self.known_token(now).unwrap_or_default();
        if token.unless_ahead(now).is_none() || known > token {
            return PublishOutcome::Superseded(known);
        }
        self.known =
            Some(Value { token, value: Bytes::copy_from_slice(value), expires: now + keep });
        if let Some(lease) = self.lease.as_mut().filter(|lease| lease.token == token) {
            lease.until = now;
        }
        PublishOutcome::Stored
    }

    /// Renews the lease until `until`, or ends it if that is now. Whether it is still that of the
    /// token.
    pub(super) fn set_lease_end(&mut self, token: LeaseToken, until: Micros) -> bool {
        let lease = self.lease.as_mut().filter(|lease| lease.token == token);
        lease.map(|lease| lease.until = until).is_some()
    }

    /// How many proxies send requests to the origin; `proxy` is one of them from now on.
    pub(super) fn announce(&mut self, proxy: Option<&str>, times: PresenceTimes) -> usize {
        let PresenceTimes { now, interval } = times;
        let first = now.saturating_sub(2 * interval);
        self.presence.retain(|_, seen| *seen >= first);
        if let Some(proxy) = proxy {
            self.presence.insert(proxy.to_owned(), now);
            self.presence_expires = now + 3 * interval;
        }
        self.presence.values().filter(|seen| **seen <= now + 2 * interval).count()
    }

    /// Takes one of so many places, or keeps it. Whether `id` has one.
    pub(super) fn take_place(&mut self, id: String, places: usize, now: Micros) -> bool {
        self.places.retain(|_, ends| (now..=now + micros(PLACE)).contains(ends));
        let has = self.places.contains_key(&id) || self.places.len() < places;
        if has {
            self.places.insert(id, now + micros(PLACE));
        }
        has
    }

    /// Whether nothing of it matters any more.
    pub(super) fn is_over(&self, now: Micros) -> bool {
        self.known.as_ref().is_none_or(|value| value.expires < now)
            && self.lease.as_ref().is_none_or(|lease| lease.until + REST < now)
            && self.lane.expires < now
            && self.places.values().all(|ends| *ends < now)
            && self.presence_expires < now
    }

    fn known_token(&self, now: Micros) -> Option<LeaseToken> {
        let value = self.known.as_ref().filter(|value| value.expires >= now)?;
        value.token.unless_ahead(now)
    }
}

impl Lease {
    /// Whether it lasts. One that ends later than it can was made before the clock went back.
    const fn is_held(&self, now: Micros) -> bool {
        self.until > now && self.until - now <= LEASE.as_micros() as Micros
    }
}
