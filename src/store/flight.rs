//! One fetch under way, and those who wait for it, on whichever runtime they run. It lands once,
//! whatever happens: with what was learnt, with a refusal, or aborted.

use std::sync::{Arc, MutexGuard};

use tokio::sync::watch;

use super::entry::Entry;
use super::fetches::{Fetches, GiveUp, Id, Interest, Ticket};
use super::flights::FlightKey;
use super::landing::Before;
use super::question::{Question, jitter};
use super::{Shelf, Store, Undecided};
use crate::clients::{Key, Permit};
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::store::fetch::{Ask, FetchIdentity};
use crate::store::limits::PARSED_INLINE_BYTES_MAX;
use crate::types::origin::Origin;

/// How a fetch ended for those who waited.
pub(super) type Landing = Result<Arc<Entry>, Undecided>;

/// The fetch's side. Dropped without a landing (a panic, a runtime that goes down) it frees the
/// origin for another fetch and tells the waiters.
pub(super) struct Flight {
    store: Arc<Store>,
    key: FlightKey,
    landed: watch::Sender<Option<Landing>>,
    ticket: Ticket,
    /// Among all flights.
    _room: Permit,
}

/// By which requests wait for a flight.
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

/// What came of a fetch. A large file is read where it delays nobody else.
struct Lesson {
    store: Arc<Store>,
    /// What it was learnt on top of.
    known: Option<Arc<Entry>>,
    profile: Arc<Profile>,
    identity: FetchIdentity,
    fetched: Fetched,
    entry: Arc<Entry>,
}

impl Flight {
    fn new(store: &Arc<Store>, key: FlightKey, client: &Key, room: Permit) -> (Self, Landed) {
        let (sender, receiver) = watch::channel(None);
        let ticket = store.fetches.begin(client);
        let landed =
            Landed { landed: receiver, ticket: ticket.id(), fetches: Arc::clone(&store.fetches) };
        (Self { store: Arc::clone(store), key, landed: sender, ticket, _room: room }, landed)
    }

    /// Looks among the packs and on the disk for what is not ready; where that does not do, fetches; works
    /// out what follows, and lands. A task of its own: nobody's leaving ends it.
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
        // Until it lands: what has been fetched and waits for its room is in no other bound.
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
        // As long as the room is held, no other flight lands.
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
            // The proxy's own shortage: nothing is learnt of the site.
            Ok(undecided) = give_up => return Err(undecided),
        };
        begun.ended(&fetched);
        let fetched = match fetched {
            Err(refused) => return Err(Undecided::Refused(refused.0)),
            Ok(fetched) => fetched,
        };
        // Under other profiles something may have been derived meanwhile, and packed; and another agent may
        // have been answered.
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

    /// Without a fetch, and ready already; near its end it is fetched for those who come later.
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
    /// What `fetched` makes of what was `known`.
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

    /// What it follows, where `newest` is known by now.
    fn before(&self, newest: Option<&Arc<Entry>>, client: Key) -> Before {
        Before {
            identity: self.identity.clone(),
            client,
            profile: Arc::clone(&self.profile),
            at: self.fetched.at,
            entry: newest.or(self.known.as_ref()).cloned(),
        }
    }

    /// The same, should something else be known of the origin by now: its file has been read already.
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
    /// A request of `client` waits for it, too.
    pub(super) fn join(&self, client: &Key) -> Waiting {
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
    /// Starts a flight, if there may be one more; other agents' questions wait for it where it `is_shared`. Its
    /// client waits for it, as long as it keeps what is returned.
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

    /// It is a task of its own: it goes on when all who wait for it have left, unless others want its
    /// place.
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
        // A runtime that is going down drops the task at once, and the flight takes the lock then.
        drop(shelf);
        tokio::spawn(flight.fly(ask, Arc::clone(profile), previous));
        Ok(waiting)
    }

    /// Asks again for what an origin's flight has just brought from a pack or the disk, for it ends soon.
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
            // Whether it can begin or not, the copy still serves.
            let _ = self.launch(shelf, key, ask, profile, Some(entry));
        }
    }

    /// What is ready of `origin`, or was learnt of it last while fetches are under way.
    fn newest(&self, origin: &Origin) -> Option<Arc<Entry>> {
        let mut shelf = self.shelf();
        let ready = shelf.cache.get(origin).cloned();
        ready.or_else(|| shelf.flights.learnt(origin).cloned())
    }

    /// What was learnt and the end of the flight become visible in the same instant.
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
