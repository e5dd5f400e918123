//! The task of one fetch: it reads the disk, asks the other proxies, fetches, and completes the
//! flight with the new entry.

use std::sync::{Arc, MutexGuard};

use super::applied_fetch::AppliedFetch;
use super::entries::State;
use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRequest};
use super::fetch_listener::BeforeFetch;
use super::fetches::{Fetches, Waiting};
use super::limits::PARSED_INLINE_BYTES_MAX;
use super::origin_robots::Undecided;
use super::sharing::{Lease, SharedLookup, SharedLookupRequest};
use super::single_flight::queue::CancelSignal;
use super::single_flight::{self, StartOutcome};
use crate::policy::profile::Profile;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

type Flight = single_flight::Flight<Origin, FetchIdentity, Arc<Entry>, Undecided>;
type FlightKey = single_flight::FlightKey<Origin, FetchIdentity>;

/// What a lookup waits for.
pub(super) enum Wait {
    /// A fetch that it has started.
    Started(Waiting),
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
            StartOutcome::Joined(waiting) => Ok(Wait::Joined(waiting)),
            StartOutcome::Busy => Err(Undecided::Busy),
            StartOutcome::Started(flight, waiting) => {
                // A runtime that shuts down drops the task at once.
                drop(entries);
                let (fetches, profile) = (Arc::clone(self), Arc::clone(profile));
                tokio::spawn(FetchTask { fetches, flight, profile }.run(request, known));
                Ok(Wait::Started(waiting))
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
}

impl FetchTask {
    /// Reads the disk for what is not in memory; fetches if that is not current; and completes the
    /// flight.
    async fn run(self, request: FetchRequest, known: Option<Arc<Entry>>) {
        let fetches = Arc::clone(&self.fetches);
        let previous = match known {
            Some(entry) => Some(entry),
            None => {
                match fetches.entries.load(&request.origin, &self.profile, &request.client).await {
                    Some(entry) if fetches.is_current(&entry, &self.profile, &request.identity) => {
                        return self.complete_from_disk(request, entry);
                    }
                    loaded => loaded,
                }
            }
        };
        self.fetch_unless_shared(request, previous).await;
    }

    /// Takes what another proxy has found, if that is current; else fetches, on top of `previous`,
    /// and publishes the new entry.
    async fn fetch_unless_shared(self, request: FetchRequest, previous: Option<Arc<Entry>>) {
        let fetches = Arc::clone(&self.fetches);
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
            SharedLookup::Found(entry) => self.complete_from_engine(request, entry),
            SharedLookup::TimedOut => self.complete_undecided(Undecided::TimedOut),
            SharedLookup::Fetch(previous, None) => {
                let applied = self.fetch_in_slot(&request, previous).await;
                self.complete(applied, request, None);
            }
            SharedLookup::Fetch(previous, Some(lease)) => {
                let applied = lease.during(self.fetch_in_slot(&request, previous)).await;
                let is_parent_failure = applied.as_ref().is_ok_and(AppliedFetch::is_parent_failure);
                match self.complete(applied, request, Some(&lease)) {
                    Some(entry) if !is_parent_failure => lease.publish(&entry).await,
                    _ => lease.release().await,
                }
            }
        }
    }

    /// Fetches, when there is a slot. It is kept until the flight completes: a fetched file that
    /// waits for room counts against no other bound.
    async fn fetch_in_slot(
        &self,
        request: &FetchRequest,
        previous: Option<Arc<Entry>>,
    ) -> Result<AppliedFetch, Undecided> {
        match self.flight.wait_for_slot(&request.progress).await {
            Ok(cancel) => self.fetch(request.clone(), previous, cancel).await,
            Err(reason) => Err(reason.into()),
        }
    }

    /// Completes the flight with the result of a fetch. Returns the new entry, if there is one.
    fn complete(
        self,
        applied: Result<AppliedFetch, Undecided>,
        request: FetchRequest,
        lease: Option<&Lease>,
    ) -> Option<Arc<Entry>> {
        let fetches = Arc::clone(&self.fetches);
        match applied {
            Ok(applied) => {
                let FetchRequest { origin, client, .. } = request;
                let (before, entry) = self.complete_fetched(applied, &origin, client, lease);
                fetches.listener.report(&origin, before, &entry);
                Some(entry)
            }
            Err(why) => {
                self.complete_undecided(why);
                None
            }
        }
    }

    /// Completes the flight with what another proxy has found.
    fn complete_from_engine(self, request: FetchRequest, entry: Arc<Entry>) {
        let Self { fetches, flight, profile } = self;
        let FetchRequest { origin, identity, client, .. } = request;
        let mut entries = fetches.entries.lock();
        let base = fetches.newest(&mut entries, &origin);
        // Another agent's fetch may have completed meanwhile.
        let is_newer = |own: &Arc<Entry>| entry.tried_at() < own.tried_at();
        if let Some(own) = base.clone().filter(is_newer) {
            return flight.complete(None).send(Ok(own));
        }
        let at = fetches.clock.wall();
        let before = BeforeFetch { identity, client, profile, at, entry: base };
        fetches.entries.put(&mut entries, &origin, &entry);
        let completion = flight.complete(Some(Arc::clone(&entry)));
        drop(entries);
        fetches.subscribers.notify(&origin, &entry);
        completion.send(Ok(Arc::clone(&entry)));
        fetches.listener.report(&origin, before, &entry);
    }

    async fn fetch(
        &self,
        request: FetchRequest,
        previous: Option<Arc<Entry>>,
        cancel: CancelSignal,
    ) -> Result<AppliedFetch, Undecided> {
        let Self { fetches, profile, .. } = self;
        let counted = fetches.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(profile));
        let (origin, identity) = (request.origin.clone(), request.identity.clone());
        let fetcher = Arc::clone(&fetches.fetcher.load());
        let fetched = tokio::select! {
            fetched = fetcher.fetch(FetchRequest { validators, ..request }) => fetched,
            // Cancelled for the proxy's own shortage: this says nothing of the site.
            Ok(reason) = cancel => return Err(reason.into()),
        };
        counted.ended(&fetched);
        let fetched = match fetched {
            Err(refused) => return Err(Undecided::NotSent(refused.0)),
            Ok(fetched) => fetched,
        };
        // Meanwhile other profiles may have been derived, and another agent may have had a
        // response.
        let known = fetches.newest(&mut fetches.entries.lock(), &origin).or(previous);
        let (entries, profile) = (Arc::clone(&fetches.entries), Arc::clone(profile));
        let is_large = fetched.bytes() > PARSED_INLINE_BYTES_MAX;
        let apply = move || AppliedFetch::new(entries, known, profile, identity, fetched);
        if is_large {
            return fetches.entries.background.run(apply).await.ok_or(Undecided::Aborted);
        }
        Ok(apply())
    }

    /// Completes the flight with what the disk had. Near its end the entry is refreshed for later
    /// requests.
    fn complete_from_disk(self, request: FetchRequest, entry: Arc<Entry>) {
        let Self { fetches, flight, profile } = self;
        let view = entry.view(|| request.identity.clone());
        let now = fetches.clock.wall();
        let ends_soon = view.state(&profile).is_some_and(|(state, _)| state.wants_refresh(now));
        let is_shared = view.is_shared;
        let entries = fetches.entries.lock();
        let may_refresh = ends_soon && !flight.is_forgotten();
        flight.complete(None).send(Ok(Arc::clone(&entry)));
        if may_refresh {
            fetches.refresh(entries, request, is_shared, &profile, entry);
        }
    }

    /// Completes the flight with the result of a fetch, applied to the newest entry, or to the one
    /// that the fetch began with unless that has been forgotten; no other flight completes
    /// meanwhile.
    fn complete_fetched(
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
        let mut entry = applied.entry_on(base);
        if let Some(lease) = lease {
            Arc::make_mut(&mut entry).token = lease.token;
        }
        fetches.entries.put(&mut entries, origin, &entry);
        let completion = flight.complete(Some(Arc::clone(&entry)));
        drop(entries);
        fetches.subscribers.notify(origin, &entry);
        completion.send(Ok(Arc::clone(&entry)));
        (before, entry)
    }

    /// Completes the flight without an entry.
    fn complete_undecided(self, why: Undecided) {
        let entries = self.fetches.entries.lock();
        let completion = self.flight.complete(None);
        drop(entries);
        completion.send(Err(why));
    }
}

fn key(request: &FetchRequest, is_shared: bool) -> FlightKey {
    FlightKey { key: request.origin.clone(), identity: request.identity.clone(), is_shared }
}
