//! The holds of a lane: those of the origin for all clients, and where clients do not trust each
//! other (`pace.holds = "client"`), those of each client.

use crate::pace::hold::{Bounds, Hold, Holds, Outcome};
use crate::pace::tick::Tick;
use crate::types::client_key::ClientKey;
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

    /// Those of the origin for all clients.
    pub(super) const fn for_all_clients(all: Holds) -> Self {
        Self { all, own: Vec::new() }
    }

    /// Whether no client has holds of its own.
    pub(super) const fn are_for_all(&self) -> bool {
        self.own.is_empty()
    }

    /// Those of the origin for all clients.
    pub(super) const fn for_all(&self) -> Holds {
        self.all
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

    /// The moment until which no request of `client` may start.
    pub(super) fn until(&self, client: &ClientKey) -> Tick {
        self.all.until().max(self.of(client).map(Holds::until).unwrap_or_default())
    }

    /// Notes how a request of `client` ended, as [`Holds::note`]. Returns whether a hold began or
    /// became longer, and whether it is for all clients.
    pub(super) fn note(
        &mut self,
        (client, scope): (&ClientKey, HoldScope),
        outcome: Outcome,
        (began, now): (Tick, Tick),
        bounds: Bounds,
        jitter: f64,
    ) -> (bool, bool) {
        // What the origin tells the proxy itself concerns all.
        let is_own = scope == HoldScope::Client && *client != ClientKey::Proxy;
        let holds = if is_own { own_of(&mut self.own, client, now, bounds) } else { None };
        let is_for_all = holds.is_none();
        let holds = holds.unwrap_or(&mut self.all);
        (holds.note(outcome, (began, now), bounds, jitter), is_for_all)
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
    fn rest(holds: &mut LaneHolds, client: &ClientKey, scope: HoldScope) -> (bool, bool) {
        let after = Duration::from_secs(60);
        let outcome = Outcome::RetryLater { status: 429, cause: Cause::RetryAfter, after };
        holds.note((client, scope), outcome, (at(1), at(2)), BOUNDS, 0.0)
    }

    #[test]
    fn a_hold_concerns_all_clients_or_its_own() {
        let (ada, bob) = (client("ada"), client("bob"));
        for (scope, of_bob) in [(HoldScope::Origin, at(62)), (HoldScope::Client, at(0))] {
            let mut holds = LaneHolds::new();
            assert_eq!(rest(&mut holds, &ada, scope), (true, scope == HoldScope::Origin));
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
            assert!(!rest(&mut holds, &client(&number.to_string()), HoldScope::Client).1);
        }
        assert_eq!(holds.until(&client("other")), at(0));
        assert!(rest(&mut holds, &client("more"), HoldScope::Client).1);
        assert_eq!(holds.until(&client("other")), at(62));
        let mut holds = LaneHolds::new();
        assert!(rest(&mut holds, &ClientKey::Proxy, HoldScope::Client).1);
        assert_eq!(holds.until(&client("other")), at(62));
    }
}
