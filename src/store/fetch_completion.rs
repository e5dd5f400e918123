//! The end of a fetch's task: it completes the flight, and stores and reports the new entry.

use std::sync::Arc;

use super::applied_fetch::AppliedFetch;
use super::entry::Entry;
use super::fetch::FetchRequest;
use super::fetch_coordinator::Lease;
use super::fetch_listener::BeforeFetch;
use super::fetch_task::FetchTask;
use super::origin_robots::Undecided;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

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
                let FetchRequest { origin, client, .. } = request;
                let (before, entry) = self.complete_fetched(applied, &origin, client, lease);
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
        client: ClientKey,
        lease: Option<&Lease>,
    ) -> (BeforeFetch, Arc<Entry>) {
        let Self { core, flight, .. } = self;
        let mut entries = core.entries.lock();
        let newest = core.newest(&mut entries, origin);
        let base = newest.or_else(|| applied.base(flight.is_forgotten()));
        let before = applied.before(base.clone(), client);
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
        let Self { core, flight, profile } = self;
        let FetchRequest { origin, identity, client, .. } = request;
        let mut entries = core.entries.lock();
        let newest = core.newest(&mut entries, &origin);
        // During the lookup at the engine, another agent's fetch may have completed here.
        let is_newer = |own: &Arc<Entry>| entry.tried_at() < own.tried_at();
        if let Some(own) = newest.clone().filter(is_newer) {
            return flight.unregister(None).send(Ok(own));
        }
        let at = core.clock.wall();
        let before = BeforeFetch { identity, client, profile, at, entry: newest };
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
        let Self { core, flight, profile } = self;
        let view = entry.view(|| request.identity.clone());
        let now = core.clock.wall();
        let needs_refresh = view.state(&profile).is_some_and(|(state, _)| state.needs_refresh(now));
        let for_all_agents = view.for_all_agents;
        let entries = core.entries.lock();
        let may_refresh = needs_refresh && !flight.is_forgotten();
        flight.unregister(None).send(Ok(Arc::clone(&entry)));
        if may_refresh {
            core.refresh(entries, request, for_all_agents, &profile, entry);
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
