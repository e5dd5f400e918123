//! Fetches robots.txt files in tasks of their own, one at a time per origin and agent, and stores
//! what they find.

use std::sync::{Arc, MutexGuard};

use arc_swap::ArcSwap;

use super::applied_fetch::AppliedFetch;
use super::counters::Counters;
use super::entries::{Entries, State};
use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRequest, FetchRobots};
use super::fetch_listener::{BeforeFetch, ListenerSlot};
use super::known::{Known, Undecided};
use super::limits::PARSED_INLINE_BYTES_MAX;
use super::sharing::{Lease, SharedLookup, SharedLookupRequest, Sharing};
use super::single_flight::queue::Cancel;
use super::single_flight::{self, SingleFlight, Start};
use super::subscribers::Subscribers;
use crate::policy::profile::Profile;
use crate::runtime::clock::Clock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

type Flights = SingleFlight<Origin, FetchIdentity, Arc<Entry>, Undecided>;
type Flight = single_flight::Flight<Origin, FetchIdentity, Arc<Entry>, Undecided>;
type FlightKey = single_flight::FlightKey<Origin, FetchIdentity>;

/// A request that waits for a fetch.
pub(super) type Waiting = single_flight::Waiting<Arc<Entry>, Undecided>;

/// The entries, and the fetches in flight that renew them.
///
/// Flights are not part of the entries: evicting one must not start a second fetch. Lookups, and
/// landings with a new entry, hold the lock of the entries while they use the flights, so the new
/// entry and the end of its flight become visible together.
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

/// What a lookup waits for.
pub(super) enum Wait {
    /// A fetch that it has started.
    Begun(Waiting),
    /// A fetch that was in flight.
    Joined(Waiting),
}

/// One fetch in flight. Runs as its own task, so it continues when all that wait have left, unless
/// others need its slot.
struct FetchTask {
    fetches: Arc<Fetches>,
    flight: Flight,
    profile: Arc<Profile>,
}

impl Fetches {
    /// The identity of a fetch for `agent`.
    pub(super) fn identity(&self, agent: Option<&str>) -> FetchIdentity {
        self.fetcher.load().identity(agent)
    }

    /// Joins the fetch in flight, or starts one on top of `known`. Other agents' requests wait for
    /// it if it `is_shared`. The client waits for it as long as it holds the returned value.
    ///
    /// # Errors
    ///
    /// [`Undecided::Busy`] if there are too many flights.
    pub(super) fn start(
        self: &Arc<Self>,
        entries: MutexGuard<'_, State>,
        request: FetchRequest,
        is_shared: bool,
        profile: &Arc<Profile>,
        known: Option<Arc<Entry>>,
    ) -> Result<Wait, Undecided> {
        match self.flights.start(key(&request, is_shared), &request.client) {
            Start::Joined(waiting) => Ok(Wait::Joined(waiting)),
            Start::Busy => Err(Undecided::Busy),
            Start::Begun(flight, waiting) => {
                // A runtime that shuts down drops the task at once.
                drop(entries);
                let (fetches, profile) = (Arc::clone(self), Arc::clone(profile));
                tokio::spawn(FetchTask { fetches, flight, profile }.run(request, known));
                Ok(Wait::Begun(waiting))
            }
        }
    }

    /// Starts a fetch on top of `known`, which is still current; but not if one is in flight, or it
    /// would delay others.
    pub(super) fn refresh(
        self: &Arc<Self>,
        entries: MutexGuard<'_, State>,
        request: FetchRequest,
        is_shared: bool,
        profile: &Arc<Profile>,
        known: Arc<Entry>,
    ) {
        let is_in_flight = self.flights.is_in_flight(&key(&request, is_shared));
        if !is_in_flight && self.flights.has_slot(&request.client) {
            // Not starting is fine: the copy is still current.
            let _ = self.start(entries, request, is_shared, profile, Some(known));
        }
    }

    /// Whether `entry` has a current result for the agent, so that no fetch is needed.
    fn is_current(&self, entry: &Entry, profile: &Arc<Profile>, agent: &FetchIdentity) -> bool {
        let view = entry.view(|| agent.clone());
        let held = view.state(profile);
        held.is_some_and(|held| Known::if_current(held, &view, self.clock.wall()).is_some())
    }

    /// The entry of `origin` in memory, or the one that landed last while other fetches are in flight.
    fn newest(&self, entries: &mut State, origin: &Origin) -> Option<Arc<Entry>> {
        let in_memory = entries.memory.get(origin).cloned();
        in_memory.or_else(|| self.flights.last_value(origin))
    }
}

impl FetchTask {
    /// Reads the disk for what is not in memory; fetches if that is not current; derives the new
    /// entry, and lands.
    async fn run(self, request: FetchRequest, known: Option<Arc<Entry>>) {
        let fetches = Arc::clone(&self.fetches);
        let previous = match known {
            Some(entry) => Some(entry),
            None => {
                match fetches.entries.load(&request.origin, &self.profile, &request.client).await {
                    Some(entry) if fetches.is_current(&entry, &self.profile, &request.identity) => {
                        return self.land_loaded(request, entry);
                    }
                    loaded => loaded,
                }
            }
        };
        let lookup = SharedLookupRequest {
            entries: &fetches.entries,
            origin: &request.origin,
            profile: &self.profile,
        };
        let max_size = fetches.fetcher.load().max_size();
        let is_current = |entry: &Entry| {
            let mut snapshot = entry.snapshot().into_iter();
            snapshot.all(|file| !file.cut || file.body.len() >= max_size)
                && fetches.is_current(entry, &self.profile, &request.identity)
        };
        match fetches.sharing.lookup_or_lease(lookup, previous, is_current).await {
            SharedLookup::Found(entry) => self.land_shared(request, entry),
            SharedLookup::TimedOut => self.land_undecided(Undecided::TimedOut),
            SharedLookup::Fetch(previous, None) => {
                let applied = self.fetch_in_slot(&request, previous).await;
                self.land(applied, request, None);
            }
            SharedLookup::Fetch(previous, Some(lease)) => {
                let applied = lease.during(self.fetch_in_slot(&request, previous)).await;
                let is_ours = applied.as_ref().is_ok_and(AppliedFetch::is_of_parent);
                match self.land(applied, request, Some(&lease)) {
                    Some(entry) if !is_ours => lease.publish(&entry).await,
                    _ => lease.release().await,
                }
            }
        }
    }

    /// Fetches, when there is a slot. It is kept until the flight lands: a fetched file that waits
    /// for room counts against no other bound.
    async fn fetch_in_slot(
        &self,
        request: &FetchRequest,
        previous: Option<Arc<Entry>>,
    ) -> Result<AppliedFetch, Undecided> {
        match self.flight.slot(&request.progress).await {
            Ok(cancel) => self.fetch(request.clone(), previous, cancel).await,
            Err(cancelled) => Err(cancelled.into()),
        }
    }

    /// Lands with the result of a fetch. Returns the new entry, if there is one.
    fn land(
        self,
        applied: Result<AppliedFetch, Undecided>,
        request: FetchRequest,
        lease: Option<&Lease>,
    ) -> Option<Arc<Entry>> {
        let fetches = Arc::clone(&self.fetches);
        match applied {
            Ok(applied) => {
                let FetchRequest { origin, client, .. } = request;
                let (before, entry) = self.land_fetched(applied, &origin, client, lease);
                fetches.listener.report(&origin, before, &entry);
                Some(entry)
            }
            Err(why) => {
                self.land_undecided(why);
                None
            }
        }
    }

    /// Lands with what another proxy has found.
    fn land_shared(self, request: FetchRequest, entry: Arc<Entry>) {
        let Self { fetches, flight, profile } = self;
        let FetchRequest { origin, identity, client, .. } = request;
        let mut entries = fetches.entries.lock();
        let base = fetches.newest(&mut entries, &origin);
        // Another agent's fetch may have landed meanwhile.
        let is_newer = |own: &Arc<Entry>| entry.tried_at() < own.tried_at();
        if let Some(own) = base.clone().filter(is_newer) {
            return flight.land(None).send(Ok(own));
        }
        let at = fetches.clock.wall();
        let before = BeforeFetch { identity, client, profile, at, entry: base };
        fetches.entries.put(&mut entries, &origin, &entry);
        let landed = flight.land(Some(Arc::clone(&entry)));
        drop(entries);
        fetches.subscribers.notify(&origin, &entry);
        landed.send(Ok(Arc::clone(&entry)));
        fetches.listener.report(&origin, before, &entry);
    }

    async fn fetch(
        &self,
        request: FetchRequest,
        previous: Option<Arc<Entry>>,
        cancel: Cancel,
    ) -> Result<AppliedFetch, Undecided> {
        let Self { fetches, profile, .. } = self;
        let begun = fetches.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(profile));
        let (origin, identity) = (request.origin.clone(), request.identity.clone());
        let fetcher = Arc::clone(&fetches.fetcher.load());
        let fetched = tokio::select! {
            fetched = fetcher.fetch(FetchRequest { validators, ..request }) => fetched,
            // Cancelled for the proxy's own shortage: this says nothing of the site.
            Ok(cancelled) = cancel => return Err(cancelled.into()),
        };
        begun.ended(&fetched);
        let fetched = match fetched {
            Err(refused) => return Err(Undecided::NotSent(refused.0)),
            Ok(fetched) => fetched,
        };
        // Meanwhile other profiles may have been derived, and another agent may have had a response.
        let known = fetches.newest(&mut fetches.entries.lock(), &origin).or(previous);
        let (entries, profile) = (Arc::clone(&fetches.entries), Arc::clone(profile));
        let is_large = fetched.bytes() > PARSED_INLINE_BYTES_MAX;
        let apply = move || AppliedFetch::new(entries, known, profile, identity, fetched);
        if is_large {
            return fetches.entries.background.run(apply).await.ok_or(Undecided::Aborted);
        }
        Ok(apply())
    }

    /// Lands without a fetch. Near its end the entry is refreshed for later requests.
    fn land_loaded(self, request: FetchRequest, entry: Arc<Entry>) {
        let Self { fetches, flight, profile } = self;
        let view = entry.view(|| request.identity.clone());
        let now = fetches.clock.wall();
        let ends_soon = view.state(&profile).is_some_and(|(state, _)| state.wants_refresh(now));
        let is_shared = view.is_shared;
        let entries = fetches.entries.lock();
        let may_refresh = ends_soon && !flight.is_forgotten();
        flight.land(None).send(Ok(Arc::clone(&entry)));
        if may_refresh {
            fetches.refresh(entries, request, is_shared, &profile, entry);
        }
    }

    /// Lands with the result of a fetch, applied to the newest entry, or to the one that the fetch began
    /// with unless that has been forgotten; no other flight lands meanwhile.
    fn land_fetched(
        self,
        applied: AppliedFetch,
        origin: &Origin,
        client: ClientKey,
        lease: Option<&Lease>,
    ) -> (BeforeFetch, Arc<Entry>) {
        let Self { fetches, flight, .. } = self;
        let mut entries = fetches.entries.lock();
        let newest = fetches.newest(&mut entries, origin);
        let base = newest.or_else(|| applied.base(flight.is_forgotten()));
        let before = applied.before(base.clone(), client);
        let mut entry = applied.on_top_of(base);
        if let Some(lease) = lease {
            Arc::make_mut(&mut entry).token = lease.token;
        }
        fetches.entries.put(&mut entries, origin, &entry);
        let landed = flight.land(Some(Arc::clone(&entry)));
        drop(entries);
        fetches.subscribers.notify(origin, &entry);
        landed.send(Ok(Arc::clone(&entry)));
        (before, entry)
    }

    /// Lands without an entry.
    fn land_undecided(self, why: Undecided) {
        let entries = self.fetches.entries.lock();
        let landed = self.flight.land(None);
        drop(entries);
        landed.send(Err(why));
    }
}

fn key(request: &FetchRequest, is_shared: bool) -> FlightKey {
    FlightKey { key: request.origin.clone(), identity: request.identity.clone(), is_shared }
}
