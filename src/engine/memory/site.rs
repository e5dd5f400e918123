//! What is shared of one origin. `scripts/lookup.lua`, `publish.lua`, `renew_lease.lua` and
//! `announce_presence.lua` compute the same; but that what was asked for once lives a day on a
//! server: here the number of origins is bounded.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::lane::{Lane, REST};
use crate::engine::clock::{Micros, micros};
use crate::engine::lease_token::LeaseToken;
use crate::engine::lookup::{LEASE, LookupOutcome, PublishOutcome};

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

/// The last lease, which may be over: its token counts on.
#[derive(Debug)]
pub(super) struct Lease {
    pub token: LeaseToken,
    pub until: Micros,
    pub holder: String,
}

impl Site {
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
