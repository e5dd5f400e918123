//! What is shared of the proxies themselves, and of one origin. `scripts/heartbeat.lua`, `lookup.lua`,
//! `publish.lua`, `renew_lease.lua` and `announce_presence.lua` compute the same; but that what was
//! asked for once lives a day on a server: here the number of origins is bounded.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::clock::{Micros, micros};
use crate::engine::lane::{Lane, REST};
use crate::engine::members::{
    Heartbeat, LogHead, MISSED_MAX, NUMBER_MAX, against, heartbeat_interval,
};
use crate::engine::{AHEAD_MAX, LEASE, LeaseToken, LookupOutcome, PublishOutcome, member};

/// A log's head is kept for 400 days.
pub(in crate::engine) const HEAD_KEPT: Micros = 400 * 24 * 60 * 60 * 1_000_000;

/// The proxies.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// When each was seen last.
    pub members: BTreeMap<String, Micros>,
    /// The latest format that each reads, and the digest of its settings.
    pub about: BTreeMap<String, (u8, u32)>,
    /// When the data began.
    pub epoch: Option<Micros>,
    /// The head of each log, or what contradicts it, with its proxy, and when it was noted.
    pub heads: BTreeMap<String, (Micros, String, LogHead)>,
    /// The process of each name that beat last, and when.
    processes: BTreeMap<String, (String, Micros)>,
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
        let place = if is_against { beside } else { place };
        let head = LogHead { contradicts: is_against, ..head };
        self.heads.insert(place, (now, proxy.to_owned(), head));
    }

    pub(super) fn heartbeat(&mut self, request: &HeartbeatRequest<'_>, now: Micros) -> Heartbeat {
        let epoch = self.epoch.filter(|epoch| *epoch <= now + AHEAD_MAX).unwrap_or(now);
        self.epoch = Some(epoch);
        let missed = MISSED_MAX * micros(heartbeat_interval(self.members.len()));
        let seen = now.saturating_sub(missed)..=now + missed;
        self.members.retain(|_, at| seen.contains(at));
        let has_namesake = self.note_process(request, seen.clone(), now);
        let own = member(request.proxy, request.process);
        self.members.insert(own.clone(), now);
        self.about.insert(own, (request.format, request.settings));
        self.about.retain(|proxy, _| self.members.contains_key(proxy));
        if let Some(head) = request.head {
            self.note_head(request.proxy, head, now);
        }
        self.heads.retain(|_, (noted, ..)| *noted + HEAD_KEPT >= now);
        let is_same = |about: &&(u8, u32)| about.1 == request.settings;
        let oldest = self.about.values().map(|(format, _)| *format).min();
        Heartbeat {
            members: self.members.len(),
            same_settings: self.about.values().filter(is_same).count(),
            format: oldest.unwrap_or(request.format).min(request.format),
            now,
            epoch,
            has_namesake,
        }
    }

    /// Whether another process of the name lives; one that begins takes the place of the one before.
    fn note_process(
        &mut self,
        request: &HeartbeatRequest<'_>,
        seen: std::ops::RangeInclusive<Micros>,
        now: Micros,
    ) -> bool {
        let HeartbeatRequest { proxy, process, is_first, .. } = *request;
        if process.is_empty() {
            return false;
        }
        let before = self.processes.insert(proxy.to_owned(), (process.to_owned(), now));
        let other = before.filter(|(other, at)| other != process && seen.contains(at));
        match other {
            Some((other, _)) if is_first => {
                self.members.remove(&member(proxy, &other));
                false
            }
            other => other.is_some(),
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

    /// Whether nothing of it matters any more.
    pub(super) fn is_over(&self, now: Micros) -> bool {
        self.known.as_ref().is_none_or(|value| value.expires < now)
            && self.lease.as_ref().is_none_or(|lease| lease.until + REST < now)
            && self.lane.expires < now
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
