//! The entries, and the fetches in flight that renew them: one at a time per origin and agent.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::counters::Counters;
use super::entries::{Entries, State};
use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRobots};
use super::fetch_listener::ListenerSlot;
use super::origin_robots::{OriginRobots, Undecided};
use super::sharing::Sharing;
use super::single_flight::{self, SingleFlight};
use super::subscribers::Subscribers;
use crate::policy::profile::Profile;
use crate::runtime::clock::Clock;
use crate::types::origin::Origin;

type Flights = SingleFlight<Origin, FetchIdentity, Arc<Entry>, Undecided>;

/// A request that waits for a fetch.
pub(super) type Waiting = single_flight::Waiting<Arc<Entry>, Undecided>;

/// The entries, and the fetches in flight that renew them.
///
/// Flights are not part of the entries: evicting one must not start a second fetch. A lookup, and a
/// flight that completes, hold the lock of the entries while they use the flights, so the new entry
/// and the end of its flight become visible together.
pub(super) struct Fetches {
    pub(super) entries: Arc<Entries>,
    pub(super) flights: Arc<Flights>,
    pub(super) fetcher: ArcSwap<Arc<dyn FetchRobots>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Counters,
    pub(super) subscribers: Subscribers,
    pub(super) listener: ListenerSlot,
    pub(super) sharing: Sharing,
}

impl Fetches {
    /// The identity of a fetch for `agent`.
    pub(super) fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.fetcher.load().identity(agent)
    }

    /// Whether `entry` has a current result for the agent, so that no fetch is needed.
    pub(super) fn is_current(
        &self,
        entry: &Entry,
        profile: &Arc<Profile>,
        agent: &FetchIdentity,
    ) -> bool {
        let view = entry.view(|| agent.clone());
        let held = view.state(profile);
        held.is_some_and(|held| OriginRobots::if_current(held, &view, self.clock.wall()).is_some())
    }

    /// The entry of `origin` in memory, or the one of the last fetch that
    /// completed while others are in flight.
    pub(super) fn newest(&self, entries: &mut State, origin: &Origin) -> Option<Arc<Entry>> {
        let in_memory = entries.memory.get(origin).cloned();
        in_memory.or_else(|| self.flights.last_value(origin))
    }
}
