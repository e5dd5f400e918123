//! The holds of a lane: those of the origin for all clients, and those of each client: after
//! failures that no other client has seen, and where clients do not trust each other
//! (`pace.holds = "client"`), all.

use crate::pace::hold::{Bounds, Cause, Hold, Holds, Outcome};
use crate::pace::tick::Tick;
use crate::types::ClientKey;
use crate::types::words::words;

/// Clients of one origin with holds of their own. What concerns further ones holds for all.
const CLIENTS_MAX: usize = 1024;

words! {
    /// Whom a hold concerns (`pace.holds`).
    #[derive(Default)]
    pub enum HoldScope {
        /// All clients: the origin sees one proxy.
        #[default]
        Origin = "origin",
        /// The client whose request the origin has answered so.
        Client = "client",
    }
}

/// What the end of a request changes in the holds of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldChange {
    Nothing,
    /// A hold of the client began or became longer.
    OfClient,
    /// The same of the origin, for all clients.
    OfAll,
}

/// All holds of one origin.
#[derive(Debug)]
pub(super) struct LaneHolds {
    all: Holds,
    /// A list, because few clients of an origin are held at a time.
    own: Vec<(ClientKey, Holds)>,
}

impl LaneHolds {
    pub(super) const fn new() -> Self {
        Self { all: Holds::new(), own: Vec::new() }
    }

    /// The same, to be kept in little memory.
    pub(super) fn compact(&mut self, now: Tick, bounds: Bounds) -> Self {
        self.own.retain(|(_, holds)| !holds.is_over(now, bounds));
        self.own.shrink_to_fit();
        Self { all: self.all, own: std::mem::take(&mut self.own) }
    }

    /// Whether there were back-offs in a row, as all clients see them.
    pub(super) const fn has_streak(&self) -> bool {
        self.all.has_streak()
    }

    /// The hold for `client` at `now`, if there is one.
    pub(super) fn at(&self, client: &ClientKey, now: Tick) -> Option<Hold> {
        longer(self.all.at(now), self.of(client).and_then(|own| own.at(now)))
    }

    /// The longest hold at `now`, whomever it concerns.
    pub(super) fn longest(&self, now: Tick) -> Option<Hold> {
        self.own.iter().map(|(_, own)| own.at(now)).fold(self.all.at(now), longer)
    }

    /// The hold for all clients at `now`, if there is one.
    pub(super) fn for_all(&self, now: Tick) -> Option<Hold> {
        self.all.at(now)
    }

    /// The longest hold that outlives the process: a client's failures are not kept for all.
    pub(super) fn kept(&self, now: Tick) -> Option<Hold> {
        let own = self.own.iter().map(|(_, own)| own.at(now));
        let asked = own.map(|hold| hold.filter(|hold| hold.cause != Cause::BackOff));
        asked.fold(self.all.at(now), longer)
    }

    /// The moment until which no request of `client` may start.
    pub(super) fn until(&self, client: &ClientKey) -> Tick {
        self.all.until().max(self.of(client).map(Holds::until).unwrap_or_default())
    }

    /// Notes how a request of `client` ended, as [`Holds::note`].
    pub(super) fn note(
        &mut self,
        (client, scope): (&ClientKey, HoldScope),
        outcome: Outcome,
        (began, now): (Tick, Tick),
        bounds: Bounds,
        jitter: f64,
    ) -> HoldChange {
        let is_failure = matches!(outcome, Outcome::Failure { .. } | Outcome::ConnectionLost);
        // What the origin tells the proxy itself concerns all.
        let is_own = *client != ClientKey::Proxy
            && match scope {
                HoldScope::Client => true,
                // One client may know what to request for a failure.
                HoldScope::Origin => is_failure && !self.has_failed_beside(client, now, bounds),
            };
        let ends = (began, now);
        if scope == HoldScope::Origin && is_failure && !is_own {
            self.own.drain(..).for_each(|(_, own)| self.all.absorb(own, now));
        } else if !is_own
            && outcome == Outcome::Good
            && let Some((_, own)) = self.own.iter_mut().find(|(key, _)| key == client)
        {
            own.note(outcome, ends, bounds, jitter);
        }
        let holds = if is_own { own_of(&mut self.own, client, now, bounds) } else { None };
        let change = if holds.is_some() { HoldChange::OfClient } else { HoldChange::OfAll };
        let has_changed = holds.unwrap_or(&mut self.all).note(outcome, ends, bounds, jitter);
        if has_changed { change } else { HoldChange::Nothing }
    }

    /// Whether a request of another client has failed of late.
    fn has_failed_beside(&self, client: &ClientKey, now: Tick, bounds: Bounds) -> bool {
        let mut others = self.own.iter().filter(|(key, _)| key != client).map(|(_, own)| own);
        self.all.has_failed(now, bounds) || others.any(|own| own.has_failed(now, bounds))
    }

    /// Holds all clients until `hold.until`.
    pub(super) fn set(&mut self, hold: Hold, now: Tick) {
        self.all.set(hold, now);
    }

    /// Whether nothing need be remembered at `now`.
    pub(super) fn is_over(&self, now: Tick, bounds: Bounds) -> bool {
        self.all.is_over(now, bounds) && self.own.iter().all(|(_, own)| own.is_over(now, bounds))
    }

    /// When the last hold ends, whomever it concerns.
    pub(super) fn ends_at(&self) -> Tick {
        self.own.iter().map(|(_, own)| own.until()).fold(self.all.until(), Tick::max)
    }

    /// The memory that they take beside themselves.
    pub(super) const fn heap_bytes(&self) -> usize {
        self.own.capacity() * size_of::<(ClientKey, Holds)>()
    }

    fn of(&self, client: &ClientKey) -> Option<&Holds> {
        self.own.iter().find(|(key, _)| key == client).map(|(_, own)| own)
    }
}

/// The holds of `client` in `own`, unless there are too many clients.
fn own_of<'a>(
    own: &'a mut Vec<(ClientKey, Holds)>,
    client: &ClientKey,
    now: Tick,
    bounds: Bounds,
) -> Option<&'a mut Holds> {
    let at = own.iter().position(|(key, _)| key == client);
    let at = match at {
        Some(at) => at,
        None => {
            own.retain(|(_, holds)| !holds.is_over(now, bounds));
            if own.len() >= CLIENTS_MAX {
                return None;
            }
            own.push((client.clone(), Holds::new()));
            own.len() - 1
        }
    };
    Some(&mut own[at].1)
}

fn longer(one: Option<Hold>, other: Option<Hold>) -> Option<Hold> {
    match (one, other) {
        (Some(one), Some(other)) if one.until > other.until => Some(one),
        (one, other) => other.or(one),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pace::hold::Cause;

    const BOUNDS: Bounds =
        Bounds { backoff_min: Duration::from_secs(10), backoff_max: Duration::from_secs(60) };

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn client(name: &str) -> ClientKey {
        ClientKey::User(name.into())
    }

    /// Notes that the origin asks `client` for a minute of rest.
    fn rest(holds: &mut LaneHolds, client: &ClientKey, scope: HoldScope) -> HoldChange {
        let after = Duration::from_secs(60);
        let outcome = Outcome::RetryLater { status: 429, cause: Cause::RetryAfter, after };
        holds.note((client, scope), outcome, (at(1), at(2)), BOUNDS, 0.0)
    }

    #[test]
    fn a_hold_concerns_all_clients_or_its_own() {
        let (ada, bob) = (client("ada"), client("bob"));
        for (scope, of_bob) in [(HoldScope::Origin, at(62)), (HoldScope::Client, at(0))] {
            let mut holds = LaneHolds::new();
            let change =
                if scope == HoldScope::Origin { HoldChange::OfAll } else { HoldChange::OfClient };
            assert_eq!(rest(&mut holds, &ada, scope), change);
            assert_eq!((holds.until(&ada), holds.until(&bob)), (at(62), of_bob));
            assert_eq!(holds.at(&bob, at(3)).is_some(), scope == HoldScope::Origin);
            assert_eq!(holds.longest(at(3)).map(|hold| hold.until), Some(at(62)));
            assert!(!holds.is_over(at(3), BOUNDS) && holds.is_over(at(200), BOUNDS));
        }
    }

    #[test]
    fn what_the_proxy_is_told_concerns_all_and_so_does_what_is_too_much() {
        let mut holds = LaneHolds::new();
        for number in 0..CLIENTS_MAX {
            let name = number.to_string();
            let change = rest(&mut holds, &client(&name), HoldScope::Client);
            assert_eq!(change, HoldChange::OfClient);
        }
        assert_eq!(holds.until(&client("other")), at(0));
        assert_eq!(rest(&mut holds, &client("more"), HoldScope::Client), HoldChange::OfAll);
        assert_eq!(holds.until(&client("other")), at(62));
        let mut holds = LaneHolds::new();
        assert_eq!(rest(&mut holds, &ClientKey::Proxy, HoldScope::Client), HoldChange::OfAll);
        assert_eq!(holds.until(&client("other")), at(62));
    }

    #[test]
    fn failures_hold_the_client_that_saw_them_until_another_sees_one() {
        let (ada, bob) = (client("ada"), client("bob"));
        for outcome in [Outcome::Failure { status: 500 }, Outcome::ConnectionLost] {
            let mut holds = LaneHolds::new();
            let mut fail = |client: &ClientKey, second: u64| {
                let ends = (at(second), at(second + 1));
                let change = holds.note((client, HoldScope::Origin), outcome, ends, BOUNDS, 0.0);
                (change, holds.until(&ada), holds.until(&bob))
            };
            let held = (1..=10).map(|second| fail(&ada, 4 * second)).find(|it| it.1 > at(0));
            let (change, of_ada, of_bob) = held.expect("a hold");
            assert_eq!((change, of_bob), (HoldChange::OfClient, at(0)), "{outcome:?}");
            let second = of_ada.micros() / 1_000_000;
            let (change, of_ada, of_bob) = fail(&bob, second);
            assert_eq!((change, of_ada), (HoldChange::OfAll, of_bob), "{outcome:?}");
            assert!(of_bob > at(second + 1));
        }
    }

    #[test]
    fn a_response_to_one_client_ends_what_it_saw_fail_and_no_more() {
        let (ada, bob) = (client("ada"), client("bob"));
        let mut holds = LaneHolds::new();
        let mut note = |client: &ClientKey, outcome, second| {
            let ends = (at(second), at(second + 1));
            holds.note((client, HoldScope::Origin), outcome, ends, BOUNDS, 0.0);
            (holds.until(&ada), holds.until(&bob))
        };
        for second in 1..5 {
            note(&ada, Outcome::Failure { status: 500 }, 2 * second);
        }
        note(&bob, Outcome::Good, 11);
        assert_eq!(note(&ada, Outcome::Failure { status: 500 }, 12), (at(14), at(0)));
        note(&ada, Outcome::Good, 15);
        assert_eq!(note(&ada, Outcome::Failure { status: 500 }, 17), (at(14), at(0)));
    }
}
