//! Reports each finished fetch: to one listener, which watches how files change, and the new entry to
//! the subscribers of its origin.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

use super::agents::Asker;
use super::answer::States;
use super::entry::{Entry, FetchedAs};
use super::fetch::FetchIdentity;
use crate::policy::access::CompletedFetch;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// A fetch that has ended with a result, and what it changed.
#[derive(Clone, Debug)]
pub struct FetchEvent {
    pub origin: Origin,
    /// The identity of the fetch. The states are those that decide for this agent, before and after;
    /// those of the common copy, if it names none.
    pub identity: FetchIdentity,
    /// The client whose request caused it.
    pub client: ClientKey,
    /// The profile of that request.
    pub profile: Arc<Profile>,
    /// When it ended.
    pub at: Timestamp,
    pub changes: Vec<StateChange>,
    /// The last fetch before it, if that returned no file.
    pub failed_before: Option<Arc<CompletedFetch>>,
    /// This fetch, if it returned no file.
    pub failed: Option<Arc<CompletedFetch>>,
}

/// How it changed the state for one profile.
#[derive(Clone, Debug)]
pub struct StateChange {
    pub profile: Arc<Profile>,
    /// `None` if the origin was unknown.
    pub before: Option<Arc<RobotsState>>,
    pub after: Arc<RobotsState>,
}

/// Receives finished fetches.
pub trait FetchListener: Send + Sync + fmt::Debug {
    /// Called by the fetch's task once its result is in effect. Must not block.
    fn on_fetch(&self, fetch: FetchEvent);
}

/// A finished fetch, without the new entry.
pub(super) struct BeforeFetch {
    pub fetched_as: FetchedAs,
    pub profile: Arc<Profile>,
    pub at: Timestamp,
    pub entry: Option<Arc<Entry>>,
}

/// The listener, once it is set.
#[derive(Debug, Default)]
pub(super) struct ListenerSlot(OnceLock<Arc<dyn FetchListener>>);

impl ListenerSlot {
    /// Sets the listener, unless there is one.
    pub(super) fn set(&self, listener: Arc<dyn FetchListener>) {
        let _ = self.0.set(listener);
    }

    /// Reports the fetch that made `after`.
    pub(super) fn report(&self, origin: &Origin, before: BeforeFetch, after: &Entry) {
        let Some(listener) = self.0.get() else { return };
        let BeforeFetch { fetched_as, profile, at, entry } = before;
        let FetchedAs { identity, is_common, client } = fetched_as;
        let asker = Asker::Identity { own: &identity, is_common };
        let of = |entry: &Entry| -> (States, Option<Arc<CompletedFetch>>) {
            let view = entry.last_view(asker);
            view.map(|view| (view.states().clone(), view.failed().cloned())).unwrap_or_default()
        };
        let (before, failed_before) = entry.as_deref().map(of).unwrap_or_default();
        let (after, failed) = of(after);
        let find = |profile: &Arc<Profile>| before.iter().find(|(_, known)| known == profile);
        let changes = after.into_iter().map(|(after, profile)| StateChange {
            before: find(&profile).map(|(state, _)| Arc::clone(state)),
            profile,
            after,
        });
        let changes = changes.collect();
        let origin = origin.clone();
        listener.on_fetch(FetchEvent {
            origin,
            identity,
            client,
            profile,
            at,
            changes,
            failed_before,
            failed,
        });
    }
}

/// The subscribers to changes of each origin, keyed by the address of their mailbox. Each completed
/// fetch costs a subscriber one decision, in its own task.
#[derive(Default)]
pub(super) struct Subscribers(Lock<HashMap<Origin, HashMap<usize, Arc<Mailbox>>>>);

/// The newest entry that the subscriber has not seen yet. Older ones are overwritten.
#[derive(Default)]
pub(super) struct Mailbox {
    entry: Lock<Option<Arc<Entry>>>,
    arrived: Notify,
}

impl Subscribers {
    /// Delivers `entry` to the subscribers of `origin`.
    pub(super) fn notify(&self, origin: &Origin, entry: &Arc<Entry>) {
        let mailboxes: Vec<_> = match self.0.lock().get(origin) {
            Some(mailboxes) => mailboxes.values().cloned().collect(),
            None => return,
        };
        mailboxes.iter().for_each(|mailbox| mailbox.deliver(Arc::clone(entry)));
    }

    pub(super) fn add(&self, origin: &Origin, mailbox: &Arc<Mailbox>) {
        let mut origins = self.0.lock();
        origins.entry(origin.clone()).or_default().insert(address(mailbox), Arc::clone(mailbox));
    }

    pub(super) fn remove(&self, origin: &Origin, mailbox: &Arc<Mailbox>) {
        let mut origins = self.0.lock();
        if let Some(mailboxes) = origins.get_mut(origin) {
            mailboxes.remove(&address(mailbox));
            if mailboxes.is_empty() {
                origins.remove(origin);
            }
        }
    }
}

/// The address identifies the mailbox as long as it is in the list.
fn address(mailbox: &Arc<Mailbox>) -> usize {
    Arc::as_ptr(mailbox).addr()
}

impl Mailbox {
    fn deliver(&self, entry: Arc<Entry>) {
        *self.entry.lock() = Some(entry);
        self.arrived.notify_one();
    }

    /// Delivers `entry` unless a newer one has been delivered.
    pub(super) fn deliver_first(&self, entry: Arc<Entry>) {
        self.entry.lock().get_or_insert(entry);
        self.arrived.notify_one();
    }

    /// Waits for the next entry.
    pub(super) async fn next(&self) -> Arc<Entry> {
        loop {
            if let Some(entry) = self.entry.lock().take() {
                return entry;
            }
            self.arrived.notified().await;
        }
    }
}
