//! A fetch in flight and the requests that wait for it, on any runtime. It always lands, exactly
//! once: with an entry, a refusal, or as aborted.

use std::sync::{Arc, MutexGuard};

use tokio::sync::watch;

use super::entry::Entry;
use super::fetches::{Fetches, GiveUp, Id, Interest, Ticket};
use super::flights::FlightKey;
use super::landing::Before;
use super::question::{Question, jitter};
use super::{Shelf, Store, Undecided};
use crate::clients::Permit;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::store::fetch::{Ask, FetchIdentity};
use crate::store::limits::PARSED_INLINE_BYTES_MAX;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// The outcome of a fetch for those that wait.
pub(super) type Landing = Result<Arc<Entry>, Undecided>;

/// The fetch's side. Dropped without landing (by a panic or a runtime that shuts down), it
/// unregisters itself and wakes the waiters.
pub(super) struct Flight {
    store: Arc<Store>,
    key: FlightKey,
    landed: watch::Sender<Option<Landing>>,
    ticket: Ticket,
    /// Counts against the limit of all flights.
    _room: Permit,
}

/// Lets requests join a flight.
pub(super) struct Landed {
    landed: watch::Receiver<Option<Landing>>,
    ticket: Id,
    fetches: Arc<Fetches>,
}

/// A request that waits.
pub(super) struct Waiting {
    landed: watch::Receiver<Option<Landing>>,
    _interest: Interest,
}

/// The result of a fetch. Large files are parsed on the blocking pool.
struct Lesson {
    store: Arc<Store>,
    /// The entry that it builds on.
    known: Option<Arc<Entry>>,
    profile: Arc<Profile>,
    identity: FetchIdentity,
    fetched: Fetched,
    entry: Arc<Entry>,
}

impl Flight {
    fn new(store: &Arc<Store>, key: FlightKey, client: &ClientKey, room: Permit) -> (Self, Landed) {
        let (sender, receiver) = watch::channel(None);
        let ticket = store.fetches.begin(client);
        let landed =
            Landed { landed: receiver, ticket: ticket.id(), fetches: Arc::clone(&store.fetches) };
        (Self { store: Arc::clone(store), key, landed: sender, ticket, _room: room }, landed)
    }

    /// Looks in the compressed tier and on disk for what is not ready; fetches if that does not
    /// answer; derives the new entry, and lands. Runs as its own task, so no client that leaves
    /// ends it.
    pub(super) async fn fly(self, ask: Ask, profile: Arc<Profile>, previous: Option<Arc<Entry>>) {
        let store = Arc::clone(&self.store);
        let previous = match previous {
            Some(entry) => Some(entry),
            None => match store.recall(&self.key.origin, &profile, &ask.client).await {
                Some(entry) if store.answers(&entry, &profile, &ask.identity) => {
                    return self.land_recalled(ask, &profile, entry);
                }
                recalled => recalled,
            },
        };
        // Keeps the slot until it lands: a fetched file that waits for room counts against no other
        // bound.
        let client = ask.client.clone();
        let lesson = match self.ticket.place(&ask.progress).await {
            Ok(give_up) => self.fetch(ask, profile, previous, give_up).await,
            Err(undecided) => Err(undecided),
        };
        let lesson = match lesson {
            Ok(lesson) => lesson,
            Err(undecided) => return self.land(Err(undecided)),
        };
        let room = store.make_room(&lesson.entry).await;
        // While the room is held, no other flight lands.
        let (origin, newest) = (self.key.origin.clone(), store.newest(&self.key.origin));
        let before = lesson.before(newest.as_ref(), client);
        let entry = lesson.on_top_of(newest);
        store.keep(&origin, &entry);
        self.land(Ok(Arc::clone(&entry)));
        drop(room);
        store.tell_landing(&origin, before, &entry);
    }

    async fn fetch(
        &self,
        ask: Ask,
        profile: Arc<Profile>,
        previous: Option<Arc<Entry>>,
        give_up: GiveUp,
    ) -> Result<Lesson, Undecided> {
        let store = &self.store;
        let begun = store.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(&profile));
        let fetcher = Arc::clone(&store.terms.load().fetcher);
        let fetched = tokio::select! {
            fetched = fetcher.fetch(Ask { validators, ..ask }) => fetched,
            // Cancelled for the proxy's own shortage: nothing is learnt of the site.
            Ok(undecided) = give_up => return Err(undecided),
        };
        begun.ended(&fetched);
        let fetched = match fetched {
            Err(refused) => return Err(Undecided::Refused(refused.0)),
            Ok(fetched) => fetched,
        };
        // Meanwhile other profiles may have been derived and compressed, and another agent may have
        // had a response.
        let known = match store.newest(&self.key.origin) {
            Some(entry) => Some(entry),
            None => store.unpack(&self.key.origin, &profile).await.or(previous),
        };
        let (store, identity) = (Arc::clone(store), self.key.identity.clone());
        let is_large = fetched.bytes() > PARSED_INLINE_BYTES_MAX;
        let learn = move || Lesson::new(store, known, profile, identity, fetched);
        if is_large {
            return self.store.apart.run(learn).await.ok_or(Undecided::Aborted);
        }
        Ok(learn())
    }

    /// Lands without a fetch. Near its end the entry is refreshed for later requests.
    fn land_recalled(self, ask: Ask, profile: &Arc<Profile>, entry: Arc<Entry>) {
        let store = Arc::clone(&self.store);
        let now = store.clock.wall();
        let held = entry.view(|| ask.identity.clone()).state(profile);
        let ends_soon = held.is_some_and(|(state, _)| state.wants_refresh(now));
        store.landed(&self.key, None);
        self.landed.send_replace(Some(Ok(Arc::clone(&entry))));
        if ends_soon {
            store.refresh(&self.key, ask, profile, entry);
        }
    }

    fn land(self, landing: Landing) {
        self.store.landed(&self.key, landing.as_ref().ok());
        self.landed.send_replace(Some(landing));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.landed.borrow().is_none() {
            self.store.landed(&self.key, None);
        }
    }
}

impl Lesson {
    /// Applies `fetched` to `known`.
    fn new(
        store: Arc<Store>,
        known: Option<Arc<Entry>>,
        profile: Arc<Profile>,
        identity: FetchIdentity,
        fetched: Fetched,
    ) -> Self {
        let fetched = store.parsed.shared(fetched);
        let entry =
            Arc::new(Self::entry(&store, known.as_deref(), &profile, &identity, fetched.clone()));
        Self { store, known, profile, identity, fetched, entry }
    }

    /// The state before this fetch, where `newest` is the current entry.
    fn before(&self, newest: Option<&Arc<Entry>>, client: ClientKey) -> Before {
        Before {
            identity: self.identity.clone(),
            client,
            profile: Arc::clone(&self.profile),
            at: self.fetched.at,
            entry: newest.or(self.known.as_ref()).cloned(),
        }
    }

    /// Applies the fetch to `newest` instead, if that has changed. Its file is already parsed.
    fn on_top_of(self, newest: Option<Arc<Entry>>) -> Arc<Entry> {
        let is_known =
            |newest: &&Arc<Entry>| !self.known.as_ref().is_some_and(|it| Arc::ptr_eq(it, newest));
        match newest.as_ref().filter(is_known) {
            None => self.entry,
            Some(newest) => {
                let Self { store, profile, identity, fetched, .. } = &self;
                Arc::new(Self::entry(store, Some(newest), profile, identity, fetched.clone()))
            }
        }
    }

    fn entry(
        store: &Store,
        known: Option<&Entry>,
        profile: &Arc<Profile>,
        identity: &FetchIdentity,
        fetched: Fetched,
    ) -> Entry {
        let read = |snapshot: &_, dialect: &_| store.parsed.read(snapshot, dialect);
        Entry::after(known, profile, identity, fetched, jitter(), &read)
    }
}

impl Landed {
    /// Makes a request of `client` wait for it.
    pub(super) fn join(&self, client: &ClientKey) -> Waiting {
        Waiting { landed: self.landed.clone(), _interest: self.fetches.join(self.ticket, client) }
    }
}

impl Waiting {
    pub(super) async fn entry(mut self) -> Landing {
        match self.landed.wait_for(Option::is_some).await {
            Ok(landing) => landing.clone().unwrap_or(Err(Undecided::Aborted)),
            Err(_) => Err(Undecided::Aborted),
        }
    }
}

impl Store {
    /// Starts a flight, within the limit. Other agents' requests wait for it if it `is_shared`. The
    /// client waits for it as long as it holds the returned value.
    pub(super) fn begin(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        question: &Question<'_>,
        is_shared: bool,
    ) -> Result<Waiting, Undecided> {
        let identity = self.identity(question).clone();
        let previous = shelf.cache.get(question.origin).cloned();
        let ask = Ask {
            origin: question.origin.clone(),
            identity: identity.clone(),
            validators: None,
            redirects_max: question.profile.redirects_max,
            client: question.client.key(),
            progress: Arc::default(),
        };
        let key = FlightKey { origin: question.origin.clone(), identity, is_shared };
        self.launch(shelf, key, ask, question.profile, previous)
    }

    /// Spawns the flight as its own task: it continues when all waiters have left, unless others
    /// need its slot.
    pub(super) fn launch(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        key: FlightKey,
        ask: Ask,
        profile: &Arc<Profile>,
        previous: Option<Arc<Entry>>,
    ) -> Result<Waiting, Undecided> {
        let room = self.flights.try_acquire(&ask.client).ok_or(Undecided::Busy)?;
        let (flight, landed) = Flight::new(self, key.clone(), &ask.client, room);
        let waiting = landed.join(&ask.client);
        shelf.flights.insert(&key, landed);
        // A runtime that shuts down drops the task at once, and the flight's `drop` takes the lock.
        drop(shelf);
        tokio::spawn(flight.fly(ask, Arc::clone(profile), previous));
        Ok(waiting)
    }

    /// Fetches what a flight has just found in memory or on disk, because it expires soon.
    fn refresh(
        self: &Arc<Self>,
        key: &FlightKey,
        ask: Ask,
        profile: &Arc<Profile>,
        entry: Arc<Entry>,
    ) {
        let shelf = self.shelf();
        let is_shared = entry.view(|| ask.identity.clone()).is_shared;
        let is_under_way = shelf.flights.find(&key.origin, &key.identity, is_shared).is_some();
        if !is_under_way && self.fetches.has_place(&ask.client) {
            let key = FlightKey { is_shared, ..key.clone() };
            // Not starting is fine: the copy is still current.
            let _ = self.launch(shelf, key, ask, profile, Some(entry));
        }
    }

    /// The ready entry of `origin`, or the one that landed last while other fetches are in flight.
    fn newest(&self, origin: &Origin) -> Option<Arc<Entry>> {
        let mut shelf = self.shelf();
        let ready = shelf.cache.get(origin).cloned();
        ready.or_else(|| shelf.flights.learnt(origin).cloned())
    }

    /// The new entry and the end of the flight become visible together.
    fn landed(&self, key: &FlightKey, learnt: Option<&Arc<Entry>>) {
        let mut shelf = self.shelf();
        shelf.flights.remove(key, learnt);
        if let Some(entry) = learnt {
            shelf.cache.put(&key.origin, Arc::clone(entry));
            drop(shelf);
            self.subscribers.tell(&key.origin, entry);
        }
    }
}
