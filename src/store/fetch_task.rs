//! The task of one fetch: it reads the disk, asks the engine, and fetches; the first current result
//! completes the flight (`fetch_completion`).

use std::sync::{Arc, MutexGuard};

use super::applied_fetch::AppliedFetch;
use super::entries::LockedEntries;
use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRequest};
use super::fetch_coordinator::{EngineLookup, EngineLookupRequest};
use super::limits::PARSED_INLINE_BYTES_MAX;
use super::origin_robots::Undecided;
use super::pending_fetch::PendingFetch;
use super::single_flight::queue::CancelSignal;
use super::single_flight::{self, StartOutcome};
use super::store_core::StoreCore;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

type Flight = single_flight::Flight<Origin, FetchIdentity, Arc<Entry>, Undecided>;
type FlightKey = single_flight::FlightKey<Origin, FetchIdentity>;

/// One fetch in flight. Runs as its own task, so it continues when all that wait have left, unless
/// others need its permit.
pub(super) struct FetchTask {
    pub(super) core: Arc<StoreCore>,
    pub(super) flight: Flight,
    pub(super) profile: Arc<Profile>,
}

impl StoreCore {
    /// Joins the fetch in flight, or starts one on top of the `previous` entry. Requests of other
    /// agents wait for it as well if it is `for_all_agents`.
    ///
    /// # Errors
    ///
    /// [`Undecided::Busy`] if there are too many flights.
    pub(super) fn start_or_join(
        self: &Arc<Self>,
        entries: MutexGuard<'_, LockedEntries>,
        request: FetchRequest,
        for_all_agents: bool,
        profile: &Arc<Profile>,
        previous: Option<Arc<Entry>>,
    ) -> Result<PendingFetch, Undecided> {
        match self.flights.start(flight_key(&request, for_all_agents), &request.client) {
            StartOutcome::Joined(waiting) => Ok(PendingFetch::Joined(waiting)),
            StartOutcome::Busy => Err(Undecided::Busy),
            StartOutcome::Started(flight, waiting) => {
                // If the runtime shuts down, `spawn` drops the task at once. The drop of its flight
                // takes other locks and wakes the waiters, so this lock is not held then.
                drop(entries);
                let (core, profile) = (Arc::clone(self), Arc::clone(profile));
                tokio::spawn(FetchTask { core, flight, profile }.run(request, previous));
                Ok(PendingFetch::Started(waiting))
            }
        }
    }

    /// Starts a fetch on top of the `current` entry, which no request waits for; but not if one is
    /// in flight, or it would delay others.
    pub(super) fn refresh(
        self: &Arc<Self>,
        entries: MutexGuard<'_, LockedEntries>,
        request: FetchRequest,
        for_all_agents: bool,
        profile: &Arc<Profile>,
        current: Arc<Entry>,
    ) {
        let is_in_flight = self.flights.is_in_flight(&flight_key(&request, for_all_agents));
        if !is_in_flight && self.flights.has_free_permit(&request.client) {
            // Not starting is fine: the entry is still current.
            let _ = self.start_or_join(entries, request, for_all_agents, profile, Some(current));
        }
    }
}

impl FetchTask {
    /// Reads the disk for what is not in memory, and completes the flight with that if it is
    /// current. Else asks the engine, or fetches.
    async fn run(self, request: FetchRequest, in_memory: Option<Arc<Entry>>) {
        let core = Arc::clone(&self.core);
        let previous = match in_memory {
            Some(entry) => Some(entry),
            None => {
                match core.entries.load(&request.origin, &self.profile, &request.client).await {
                    Some(entry) if core.is_current(&entry, &self.profile, &request.identity) => {
                        return self.complete_from_disk(request, entry);
                    }
                    loaded => loaded,
                }
            }
        };
        self.fetch_unless_engine_has_it(request, previous).await;
    }

    /// Completes the flight with what another proxy has published at the engine, if that is
    /// current; else fetches, on top of the `previous` entry, and publishes the new one.
    async fn fetch_unless_engine_has_it(self, request: FetchRequest, previous: Option<Arc<Entry>>) {
        let core = Arc::clone(&self.core);
        let lookup = EngineLookupRequest {
            entries: &core.entries,
            origin: &request.origin,
            profile: &self.profile,
        };
        let max_size = core.fetcher.load().max_size();
        let is_current = |entry: &Entry| {
            let mut snapshot = entry.snapshot().into_iter();
            // A file that another proxy has truncated at a lower limit is fetched again.
            snapshot.all(|file| !file.cut || file.body.len() >= max_size)
                && core.is_current(entry, &self.profile, &request.identity)
        };
        match core.engine.lookup_or_lease(lookup, previous, is_current).await {
            EngineLookup::Found(entry) => self.complete_from_engine(request, entry),
            EngineLookup::TimedOut => self.complete_undecided(Undecided::TimedOut),
            EngineLookup::Fetch(previous, None) => {
                let applied = self.fetch_with_permit(&request, previous).await;
                self.complete(applied, request, None);
            }
            EngineLookup::Fetch(previous, Some(lease)) => {
                let applied = lease.during(self.fetch_with_permit(&request, previous)).await;
                let is_parent_failure = applied.as_ref().is_ok_and(AppliedFetch::is_parent_failure);
                match self.complete(applied, request, Some(&lease)) {
                    Some(entry) if !is_parent_failure => lease.publish(&entry).await,
                    _ => lease.release().await,
                }
            }
        }
    }

    /// Fetches once there is a permit. The permit is kept until the flight completes: a fetched
    /// file that waits to be applied counts against no other bound.
    async fn fetch_with_permit(
        &self,
        request: &FetchRequest,
        previous: Option<Arc<Entry>>,
    ) -> Result<AppliedFetch, Undecided> {
        match self.flight.wait_for_permit(&request.progress).await {
            Ok(cancel) => self.fetch(request.clone(), previous, cancel).await,
            Err(reason) => Err(reason.into()),
        }
    }

    /// Fetches, and applies the result to the newest entry.
    async fn fetch(
        &self,
        request: FetchRequest,
        previous: Option<Arc<Entry>>,
        cancel: CancelSignal,
    ) -> Result<AppliedFetch, Undecided> {
        let Self { core, profile, .. } = self;
        let counted = core.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(profile));
        let (origin, identity) = (request.origin.clone(), request.identity.clone());
        let fetcher = Arc::clone(&core.fetcher.load());
        let result = tokio::select! {
            result = fetcher.fetch(FetchRequest { validators, ..request }) => result,
            // Cancelled for the proxy's own shortage: this says nothing of the site.
            Ok(reason) = cancel => return Err(reason.into()),
        };
        counted.ended(&result);
        let fetched = result.map_err(|not_sent| Undecided::NotSent(not_sent.0))?;
        // During the fetch, states for other profiles may have been derived, and another agent's
        // fetch may have completed.
        let newest = core.newest(&mut core.entries.lock(), &origin).or(previous);
        let (entries, profile) = (Arc::clone(&core.entries), Arc::clone(profile));
        let is_large = fetched.bytes() > PARSED_INLINE_BYTES_MAX;
        let apply = move || AppliedFetch::new(entries, newest, profile, identity, fetched);
        if is_large {
            return core.entries.background.run(apply).await.ok_or(Undecided::Aborted);
        }
        Ok(apply())
    }
}

fn flight_key(request: &FetchRequest, for_all_identities: bool) -> FlightKey {
    let (key, identity) = (request.origin.clone(), request.identity.clone());
    FlightKey { key, identity, for_all_identities }
}
