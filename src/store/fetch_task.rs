//! The task of one fetch: it reads the disk, asks the engine, and fetches; the first current result
//! completes the flight.

use std::sync::{Arc, MutexGuard};

use super::agents::Asker;
use super::entries::{AppliedFetch, LockedEntries};
use super::entry::{Course, Entry, FetchedAs, Whom};
use super::fetch::{FetchIdentity, FetchRequest};
use super::fetch_coordinator::{EngineLookup, EngineLookupRequest, Lease, StoreCore};
use super::fetch_listener::BeforeFetch;
use super::origin_robots::Undecided;
use super::single_flight::queue::CancelSignal;
use super::single_flight::{self, StartOutcome};
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// Bytes of a robots.txt that are parsed on the worker: a millisecond's work for hundreds of rules
/// with wildcards. Larger files are parsed on the blocking pool.
const PARSED_INLINE_BYTES_MAX: usize = 16 * 1024;

type Flight = single_flight::Flight<Origin, FetchIdentity, Arc<Entry>, Undecided>;
type FlightKey = single_flight::FlightKey<Origin, FetchIdentity>;

/// One fetch in flight. Runs as its own task, so it continues when all that wait have left, unless
/// others need its permit.
pub(super) struct FetchTask {
    pub(super) core: Arc<StoreCore>,
    pub(super) flight: Flight,
    /// The lookup's agent, as the identity of a fetch for it.
    pub(super) agent: FetchIdentity,
    pub(super) profile: Arc<Profile>,
}

/// A fetch that a lookup needs.
pub(super) struct FetchOrder {
    /// As whom: as the agent, or as this program alone.
    pub(super) request: FetchRequest,
    /// The lookup's agent, as the identity of a fetch for it.
    pub(super) agent: FetchIdentity,
    pub(super) profile: Arc<Profile>,
}

impl StoreCore {
    /// Joins the fetch in flight, or starts one on top of the `previous` entry.
    ///
    /// # Errors
    ///
    /// [`Undecided::Busy`] if there are too many flights.
    pub(super) fn start_or_join(
        self: &Arc<Self>,
        entries: MutexGuard<'_, LockedEntries>,
        order: FetchOrder,
        previous: Option<Arc<Entry>>,
    ) -> Result<PendingFetch, Undecided> {
        let FetchOrder { request, agent, profile } = order;
        match self.flights.start(flight_key(&request), &request.client) {
            StartOutcome::Joined(waiting) => Ok(PendingFetch::Joined(waiting)),
            StartOutcome::Busy => Err(Undecided::Busy),
            StartOutcome::Started(flight, waiting) => {
                // If the runtime shuts down, `spawn` drops the task at once. The drop of its flight
                // takes other locks and wakes the waiters, so this lock is not held then.
                drop(entries);
                let task = FetchTask { core: Arc::clone(self), flight, agent, profile };
                tokio::spawn(task.run(request, previous));
                Ok(PendingFetch::Started(waiting))
            }
        }
    }

    /// Starts a fetch on top of the `current` entry, which no request waits for; but not if one is
    /// in flight, or it would delay others.
    pub(super) fn refresh(
        self: &Arc<Self>,
        entries: MutexGuard<'_, LockedEntries>,
        order: FetchOrder,
        current: Arc<Entry>,
    ) {
        let request = &order.request;
        let is_in_flight = self.flights.is_in_flight(&flight_key(request));
        if !is_in_flight && self.flights.has_free_permit(&request.client) {
            // Not starting is fine: the entry is still current.
            let _ = self.start_or_join(entries, order, Some(current));
        }
    }
}

impl FetchTask {
    /// Reads the disk for what is not in memory, and completes the flight with that if no such
    /// fetch is in order then. Else asks the engine, or fetches.
    async fn run(self, request: FetchRequest, in_memory: Option<Arc<Entry>>) {
        let core = Arc::clone(&self.core);
        let previous = match in_memory {
            Some(entry) => Some(entry),
            None => match core.entries.load(&request.origin, &self.profile).await {
                Some(entry) if !self.is_in_order(&request, &entry) => {
                    return self.complete_from_disk(request, entry);
                }
                loaded => loaded,
            },
        };
        self.fetch_unless_engine_has_it(request, previous).await;
    }

    /// Whether the lookup that began the flight still needs it, where `entry` is known.
    fn is_in_order(&self, request: &FetchRequest, entry: &Entry) -> bool {
        let whom = if self.is_common(request) { Whom::Common } else { Whom::Agent };
        self.course(request, entry).is_fetch_as(whom)
    }

    pub(super) fn course<'a>(&self, request: &FetchRequest, entry: &'a Entry) -> Course<'a> {
        self.core.course(entry, &self.profile, (&self.agent, &request.client))
    }

    fn is_common(&self, request: &FetchRequest) -> bool {
        self.core.identity(None) == request.identity
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
        let is_current = |entry: &Entry| match self.course(&request, entry) {
            // A file that another proxy has truncated at a lower limit is fetched again.
            Course::Known(view, _) => {
                let mut snapshot = view.answer().snapshot().into_iter();
                snapshot.all(|file| !file.cut || file.body.len() >= max_size)
            }
            _ => false,
        };
        let own = previous.clone();
        match core.engine.lookup_or_lease(lookup, previous, is_current).await {
            EngineLookup::Found(entry) => self.complete_from_engine(request, entry),
            EngineLookup::TimedOut => self.complete_undecided(Undecided::TimedOut),
            EngineLookup::Fetch(Some(entry), lease)
                if own.is_none_or(|own| !Arc::ptr_eq(&own, &entry))
                    && self.is_out_of_order(&request, &entry) =>
            {
                // Another proxy knows something else: whom to fetch as follows from that.
                if let Some(lease) = lease {
                    lease.release().await;
                }
                self.complete_from_engine(request, entry);
            }
            EngineLookup::Fetch(previous, None) => {
                let applied = self.fetch_with_permit(&request, previous).await;
                self.complete(applied, request, None);
            }
            EngineLookup::Fetch(previous, Some(lease)) => {
                let applied = lease.during(self.fetch_with_permit(&request, previous)).await;
                let is_parent_failure = applied.as_ref().is_ok_and(AppliedFetch::is_parent_failure);
                let client = request.client.clone();
                match self.complete(applied, request, Some(&lease)) {
                    Some(entry) if !is_parent_failure => {
                        core.engine.publish(lease, &entry, &client).await;
                    }
                    _ => lease.release().await,
                }
            }
        }
    }

    /// Whether another fetch is in order for the lookup, where `entry` is known.
    fn is_out_of_order(&self, request: &FetchRequest, entry: &Entry) -> bool {
        let other = if self.is_common(request) { Whom::Agent } else { Whom::Common };
        matches!(self.course(request, entry), Course::Fetch(whom) if whom == other)
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
        let is_common = self.is_common(&request);
        let (origin, identity) = (request.origin.clone(), request.identity.clone());
        let asker = Asker::Identity { own: &identity, is_common };
        let validators = previous.as_ref().and_then(|entry| entry.validators(asker, profile));
        let client = request.client.clone();
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
        let fetched_as = FetchedAs { identity, is_common, client };
        let apply = move || AppliedFetch::new(entries, newest, profile, fetched_as, fetched);
        if is_large {
            return core.entries.background.run(apply).await.ok_or(Undecided::Aborted);
        }
        Ok(apply())
    }
}

fn flight_key(request: &FetchRequest) -> FlightKey {
    FlightKey { key: request.origin.clone(), identity: request.identity.clone() }
}

impl FetchTask {
    /// Completes the flight with the result of a fetch. Returns the new entry, if there is one.
    pub(super) fn complete(
        self,
        applied: Result<AppliedFetch, Undecided>,
        request: FetchRequest,
        lease: Option<&Lease>,
    ) -> Option<Arc<Entry>> {
        let core = Arc::clone(&self.core);
        match applied {
            Ok(applied) => {
                let FetchRequest { origin, .. } = request;
                let (before, entry) = self.complete_fetched(applied, &origin, lease);
                core.listener.report(&origin, before, &entry);
                Some(entry)
            }
            Err(why) => {
                self.complete_undecided(why);
                None
            }
        }
    }

    /// Completes the flight with the entry of a fetch: its result on top of the newest entry. If
    /// there is none, on top of the one that the fetch began with, unless that has been forgotten.
    /// No other flight completes meanwhile.
    fn complete_fetched(
        self,
        applied: AppliedFetch,
        origin: &Origin,
        lease: Option<&Lease>,
    ) -> (BeforeFetch, Arc<Entry>) {
        let Self { core, flight, .. } = self;
        let mut entries = core.entries.lock();
        let newest = core.newest(&mut entries, origin);
        let base = newest.or_else(|| applied.base(flight.is_forgotten()));
        let before = applied.before(base.clone());
        let mut entry = applied.entry_on(base);
        if let Some(lease) = lease {
            Arc::make_mut(&mut entry).token = lease.token;
        }
        core.entries.put(&mut entries, origin, &entry);
        let completion = flight.unregister(Some(Arc::clone(&entry)));
        drop(entries);
        core.subscribers.notify(origin, &entry);
        completion.send(Ok(Arc::clone(&entry)));
        (before, entry)
    }

    /// Completes the flight with an entry that another proxy has published.
    pub(super) fn complete_from_engine(self, request: FetchRequest, entry: Arc<Entry>) {
        let is_common = self.core.identity(None) == request.identity;
        let Self { core, flight, profile, .. } = self;
        let FetchRequest { origin, identity, client, .. } = request;
        let mut entries = core.entries.lock();
        let newest = core.newest(&mut entries, &origin);
        // During the lookup at the engine, another agent's fetch may have completed here.
        let is_newer = |own: &Arc<Entry>| entry.tried_at() < own.tried_at();
        if let Some(own) = newest.clone().filter(is_newer) {
            return flight.unregister(None).send(Ok(own));
        }
        let at = core.clock.wall();
        let fetched_as = FetchedAs { identity, is_common, client };
        let before = BeforeFetch { fetched_as, profile, at, entry: newest };
        core.entries.put(&mut entries, &origin, &entry);
        let completion = flight.unregister(Some(Arc::clone(&entry)));
        drop(entries);
        core.subscribers.notify(&origin, &entry);
        completion.send(Ok(Arc::clone(&entry)));
        core.listener.report(&origin, before, &entry);
    }

    /// Completes the flight with the entry on the disk. Near the end of its freshness it is
    /// refreshed for later requests.
    pub(super) fn complete_from_disk(self, request: FetchRequest, entry: Arc<Entry>) {
        let needs_refresh = match self.course(&request, &entry) {
            Course::Known(_, refresh) => refresh,
            _ => None,
        };
        let is_common = self.core.identity(None) == request.identity;
        let Self { core, flight, agent, profile } = self;
        let entries = core.entries.lock();
        let is_same = needs_refresh == Some(if is_common { Whom::Common } else { Whom::Agent });
        let may_refresh = is_same && !flight.is_forgotten();
        flight.unregister(None).send(Ok(Arc::clone(&entry)));
        if may_refresh {
            core.refresh(entries, FetchOrder { request, agent, profile }, entry);
        }
    }

    /// Completes the flight without an entry.
    pub(super) fn complete_undecided(self, why: Undecided) {
        let entries = self.core.entries.lock();
        let completion = self.flight.unregister(None);
        drop(entries);
        completion.send(Err(why));
    }
}

type Waiting = single_flight::Waiting<Arc<Entry>, Undecided>;

/// A fetch that a lookup waits for. As long as it holds this, the fetch counts for its client.
pub(super) enum PendingFetch {
    /// The lookup has started it.
    Started(Waiting),
    /// It was in flight.
    Joined(Waiting),
}

impl PendingFetch {
    /// Waits for the entry of the fetch. `None`: the fetch ended for reasons of other clients, and
    /// the lookup tries again. `is_first`: it has waited for no fetch before.
    pub(super) async fn entry(self, is_first: bool) -> Result<Option<Arc<Entry>>, Undecided> {
        let (waiting, has_joined) = match self {
            Self::Started(waiting) => (waiting, false),
            Self::Joined(waiting) => (waiting, true),
        };
        match waiting.outcome().await.unwrap_or(Err(Undecided::Aborted)) {
            Ok(entry) => Ok(Some(entry)),
            Err(why) if has_joined && why.is_due_to_others(is_first) => Ok(None),
            Err(why) => Err(why),
        }
    }
}
