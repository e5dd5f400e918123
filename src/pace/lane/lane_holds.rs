//! The holds of a lane: that of the origin for all clients, and that of one client after failures
//! that no other client has seen.

use std::time::Duration;

use crate::pace::hold::{Hold, Holds, Outcome};
use crate::pace::tick::Tick;
use crate::types::ClientKey;

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
    /// The only client that has seen failures: those that a second one sees are the origin's.
    own: Option<Box<(ClientKey, Holds)>>,
}

impl LaneHolds {
    pub(super) const fn new() -> Self {
        Self { all: Holds::new(), own: None }
    }

    /// The same, to be kept in little memory.
    pub(super) fn compact(&mut self, now: Tick) -> Self {
        Self { all: self.all, own: self.own.take().filter(|own| !own.1.is_over(now)) }
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
        longer(self.all.at(now), self.own.as_ref().and_then(|own| own.1.at(now)))
    }

    /// The hold for all clients at `now`, if there is one. It outlives the process: a client's
    /// failures are not kept.
    pub(super) fn for_all(&self, now: Tick) -> Option<Hold> {
        self.all.at(now)
    }

    /// The moment until which no request of `client` may start.
    pub(super) fn until(&self, client: &ClientKey) -> Tick {
        self.all.until().max(self.of(client).map(Holds::until).unwrap_or_default())
    }

    /// Notes how a request of `client` ended, as [`Holds::note`].
    pub(super) fn note(
        &mut self,
        client: &ClientKey,
        outcome: Outcome,
        ends: (Tick, Tick),
        backoff_min: Duration,
        jitter: f64,
    ) -> HoldChange {
        let is_failure = matches!(outcome, Outcome::Failure { .. } | Outcome::ConnectionLost);
        let (_, now) = ends;
        self.own = self.own.take().filter(|own| !own.1.is_over(now));
        let is_other = |own: &(ClientKey, Holds)| own.0 != *client;
        // One client may know what to request for a failure. What the proxy itself sees concerns all.
        let concerns_all = *client == ClientKey::Proxy
            || self.all.has_failed(now)
            || self.own.as_deref().is_some_and(is_other);
        if is_failure && concerns_all {
            if let Some(own) = self.own.take() {
                self.all.absorb(own.1, now);
            }
        } else if is_failure {
            let (_, own) =
                &mut **self.own.get_or_insert_with(|| Box::new((client.clone(), Holds::new())));
            let has_changed = own.note(outcome, ends, backoff_min, jitter);
            return if has_changed { HoldChange::OfClient } else { HoldChange::Nothing };
        } else if outcome == Outcome::Good
            && let Some((_, own)) = self.own.as_deref_mut().filter(|own| !is_other(own))
        {
            own.note(outcome, ends, backoff_min, jitter);
        }
        let has_changed = self.all.note(outcome, ends, backoff_min, jitter);
        if has_changed { HoldChange::OfAll } else { HoldChange::Nothing }
    }

    /// Holds all clients until `hold.until`.
    pub(super) fn set(&mut self, hold: Hold, now: Tick) {
        self.all.set(hold, now);
    }

    /// Whether nothing need be remembered at `now`.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        self.all.is_over(now) && self.own.as_ref().is_none_or(|own| own.1.is_over(now))
    }

    /// When the last hold ends, whomever it concerns.
    pub(super) fn ends_at(&self) -> Tick {
        self.own.as_ref().map_or(self.all.until(), |own| own.1.until().max(self.all.until()))
    }

    /// The memory that they take beside themselves.
    pub(super) const fn heap_bytes(&self) -> usize {
        if self.own.is_some() { size_of::<(ClientKey, Holds)>() } else { 0 }
    }

    fn of(&self, client: &ClientKey) -> Option<&Holds> {
        self.own.as_deref().filter(|(key, _)| key == client).map(|(_, own)| own)
    }
}

fn longer(one: Option<Hold>, other: Option<Hold>) -> Option<Hold> {
    match (one, other) {
        (Some(one), Some(other)) if one.until > other.until => Some(one),
        (one, other) => other.or(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::hold::Cause;

    const BACKOFF_MIN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Tick {
        Tick::from_micros(seconds * 1_000_000)
    }

    fn client(name: &str) -> ClientKey {
        ClientKey::User(name.into())
    }

    /// Notes that the origin asks `client` to come back in a minute.
    fn retry_later(holds: &mut LaneHolds, client: &ClientKey) -> HoldChange {
        let after = Duration::from_secs(60);
        let outcome = Outcome::RetryLater { status: 429, cause: Cause::RetryAfter, after };
        holds.note(client, outcome, (at(1), at(2)), BACKOFF_MIN, 0.0)
    }

    #[test]
    fn what_the_origin_asks_for_concerns_all_clients() {
        for asked in [client("ada"), ClientKey::Proxy] {
            let mut holds = LaneHolds::new();
            assert_eq!(retry_later(&mut holds, &asked), HoldChange::OfAll);
            assert_eq!((holds.until(&asked), holds.until(&client("bob"))), (at(62), at(62)));
            assert_eq!(holds.longest(at(3)).map(|hold| hold.until), Some(at(62)));
            assert!(!holds.is_over(at(3)) && holds.is_over(at(700)));
        }
    }

    #[test]
    fn failures_hold_the_client_that_saw_them_until_another_sees_one() {
        let (ada, bob) = (client("ada"), client("bob"));
        for outcome in [Outcome::Failure { status: 500 }, Outcome::ConnectionLost] {
            let mut holds = LaneHolds::new();
            let mut fail = |client: &ClientKey, second: u64| {
                let ends = (at(second), at(second + 1));
                let change = holds.note(client, outcome, ends, BACKOFF_MIN, 0.0);
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
            holds.note(client, outcome, ends, BACKOFF_MIN, 0.0);
            (holds.until(&ada), holds.until(&bob))
        };
        for second in 1..5 {
            note(&ada, Outcome::Failure { status: 500 }, 2 * second);
        }
        note(&bob, Outcome::Good, 11);
        assert_eq!(note(&ada, Outcome::Failure { status: 500 }, 12), (at(14), at(0)));
        note(&ada, Outcome::Good, 15);
        assert_eq!(note(&ada, Outcome::Failure { status: 500 }, 17), (at(0), at(0)));
    }
}
