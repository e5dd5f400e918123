//! The core of the store: what a lookup and the task of a fetch work on.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::agents::Asker;
use super::counters::Counters;
use super::entries::{Entries, LockedEntries};
use super::entry::Entry;
use super::entry_view::Course;
use super::fetch::{FetchIdentity, FetchRobots};
use super::fetch_coordinator::FetchCoordinator;
use super::fetch_listener::ListenerSlot;
use super::origin_robots::Undecided;
use super::single_flight::SingleFlight;
use super::subscribers::Subscribers;
use crate::policy::profile::Profile;
use crate::runtime::clock::Clock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// The fetches in flight by origin and identity.
type Flights = SingleFlight<Origin, FetchIdentity, Arc<Entry>, Undecided>;

/// The entries, the fetches in flight that renew them, and what these are made and reported with.
///
/// Flights are not part of the entries: evicting one must not start a second fetch. A lookup, and a
/// flight that completes, hold the lock of the entries while they use the flights, so the new entry
/// and the end of its flight become visible together.
pub(super) struct StoreCore {
    pub(super) entries: Arc<Entries>,
    pub(super) flights: Arc<Flights>,
    pub(super) fetcher: ArcSwap<Arc<dyn FetchRobots>>,
    pub(super) engine: FetchCoordinator,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Counters,
    pub(super) subscribers: Subscribers,
    pub(super) listener: ListenerSlot,
}

impl StoreCore {
    /// The identity of a fetch for `agent`.
    pub(super) fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.fetcher.load().identity(agent)
    }

    /// What `entry` says to a request for the agent with that identity of a fetch.
    pub(super) fn course<'a>(
        &self,
        entry: &'a Entry,
        profile: &Arc<Profile>,
        (agent, client): (&FetchIdentity, &ClientKey),
    ) -> Course<'a> {
        let is_common = self.identity(None) == *agent;
        let asker = Asker::Identity { own: agent, is_common };
        entry.course(asker, profile, self.clock.wall(), || client.clone())
    }

    /// The entry of `origin` in memory, or the one of the last fetch that completed while others
    /// are in flight.
    pub(super) fn newest(
        &self,
        entries: &mut LockedEntries,
        origin: &Origin,
    ) -> Option<Arc<Entry>> {
        let in_memory = entries.memory.get(origin).cloned();
        in_memory.or_else(|| self.flights.last_value(origin))
    }
}
