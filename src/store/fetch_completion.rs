//! The end of a fetch's task: it completes the flight, and stores and reports the new entry.

use std::sync::Arc;

use super::applied_fetch::AppliedFetch;
use super::entry::{Entry, FetchedAs};
use super::entry_view::{Course, Whom};
use super::fetch::FetchRequest;
use super::fetch_coordinator::Lease;
use super::fetch_listener::BeforeFetch;
use super::fetch_task::{FetchOrder, FetchTask};
use super::origin_robots::Undecided;
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
