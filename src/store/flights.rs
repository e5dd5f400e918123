//! The flights by origin, and the one that a request waits for.
//!
//! The first request for an origin starts a fetch that the requests of all agents wait for, since
//! its result usually holds for all of them. Where it does not, each agent has a fetch of its own.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Entry;
use super::flight::Landed;
use crate::store::fetch::FetchIdentity;
use crate::types::origin::Origin;

/// Identifies a fetch in flight.
#[derive(Clone, Debug)]
pub(super) struct FlightKey {
    pub(super) origin: Origin,
    pub(super) identity: FetchIdentity,
    /// Whether requests of other agents wait for it.
    pub(super) is_shared: bool,
}

#[derive(Default)]
pub(super) struct Flights {
    origins: HashMap<Origin, OfOrigin>,
    count: usize,
}

#[derive(Default)]
struct OfOrigin {
    shared: Option<(FetchIdentity, Landed)>,
    own: HashMap<FetchIdentity, Landed>,
    /// The result of the last flight that landed; those still in flight build on it.
    learnt: Option<Arc<Entry>>,
}

impl Flights {
    pub(super) const fn len(&self) -> usize {
        self.count
    }

    /// The flight that a request waits for. With `may_share`, also another agent's.
    pub(super) fn find(
        &self,
        origin: &Origin,
        identity: &FetchIdentity,
        may_share: bool,
    ) -> Option<&Landed> {
        let flights = self.origins.get(origin)?;
        let shared = flights.shared.as_ref().filter(|(asker, _)| may_share || asker == identity);
        shared.map(|(_, landed)| landed).or_else(|| flights.own.get(identity))
    }

    pub(super) fn insert(&mut self, key: &FlightKey, landed: Landed) {
        let flights = self.origins.entry(key.origin.clone()).or_default();
        if key.is_shared {
            flights.shared = Some((key.identity.clone(), landed));
        } else {
            flights.own.insert(key.identity.clone(), landed);
        }
        self.count += 1;
    }

    /// The result of a flight for `origin` that landed while others were in flight.
    pub(super) fn learnt(&self, origin: &Origin) -> Option<&Arc<Entry>> {
        self.origins.get(origin)?.learnt.as_ref()
    }

    pub(super) fn remove(&mut self, key: &FlightKey, learnt: Option<&Arc<Entry>>) {
        let Some(flights) = self.origins.get_mut(&key.origin) else { return };
        let was_there = if key.is_shared {
            flights.shared.take().is_some()
        } else {
            flights.own.remove(&key.identity).is_some()
        };
        self.count -= usize::from(was_there);
        if flights.shared.is_none() && flights.own.is_empty() {
            self.origins.remove(&key.origin);
        } else if let Some(learnt) = learnt {
            flights.learnt = Some(Arc::clone(learnt));
        }
    }

    /// Makes flights for `origin` build on nothing.
    pub(super) fn forget(&mut self, origin: &Origin) {
        if let Some(flights) = self.origins.get_mut(origin) {
            flights.learnt = None;
        }
    }
}
