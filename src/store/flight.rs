//! One fetch under way, and those who wait for it, on whichever runtime they run. It lands once,
//! whatever happens: with what was learnt, with a refusal, or aborted.

use std::sync::{Arc, MutexGuard};

use tokio::sync::watch;

use super::entry::Entry;
use super::fetches::{Fetches, GiveUp, Id, Interest, Ticket};
use super::question::{Question, jitter};
use super::{Shelf, Store, Undecided};
use crate::clients::{Key, Permit};
use crate::fetch::Ask;
use crate::limits::PARSED_INLINE_OCTETS_MAX;
use crate::origin::Origin;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;

/// How a fetch ended for those who waited.
pub(super) type Landing = Result<Arc<Entry>, Undecided>;

/// The fetch's side. Dropped without a landing (a panic, a runtime that goes down) it frees the
/// origin for another fetch and tells the waiters.
pub(super) struct Flight {
    store: Arc<Store>,
    origin: Origin,
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

impl Flight {
    fn new(store: &Arc<Store>, origin: Origin, client: &Key, room: Permit) -> (Self, Landed) {
        let (sender, receiver) = watch::channel(None);
        let ticket = store.fetches.begin(client);
        let landed = Landed { landed: receiver, ticket: ticket.id(), fetches: Arc::clone(&store.fetches) };
        (Self { store: Arc::clone(store), origin, landed: sender, ticket, _room: room }, landed)
    }

    /// Looks among the packs and on the disk for what is not ready; where that does not do, fetches; works
    /// out what follows, and lands. A task of its own: nobody's leaving ends it.
    pub(super) async fn fly(self, ask: Ask, profile: Arc<Profile>, previous: Option<Arc<Entry>>) {
        let store = Arc::clone(&self.store);
        let previous = match previous {
            Some(entry) => Some(entry),
            None => match store.recall(&self.origin, &profile).await {
                Some(entry) if store.answers(&entry, &profile) => {
                    return self.land_recalled(ask, &profile, entry);
                }
                recalled => recalled,
            },
        };
        // Until it lands: what has been fetched and waits for its room is in no other bound.
        let landing = match self.ticket.place(&ask.progress).await {
            Ok(give_up) => self.fetch(ask, profile, previous, give_up).await,
            Err(undecided) => Err(undecided),
        };
        let _room = match &landing {
            Ok(entry) => Some(store.make_room(entry).await),
            Err(_) => None,
        };
        self.land(landing);
    }

    async fn fetch(
        &self,
        ask: Ask,
        profile: Arc<Profile>,
        previous: Option<Arc<Entry>>,
        give_up: GiveUp,
    ) -> Landing {
        let store = &self.store;
        let begun = store.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(&profile));
        let fetcher = Arc::clone(&store.terms.load().fetcher);
        let fetched = tokio::select! {
            fetched = fetcher.fetch(Ask { validators, ..ask }) => fetched,
            // The proxy's own shortage: nothing is learnt of the site.
            Ok(()) = give_up => return Err(Undecided::Busy),
        };
        begun.ended(&fetched);
        let fetched = match fetched {
            Err(refused) => return Err(Undecided::Refused(refused.0)),
            Ok(fetched) => fetched,
        };
        // Under other profiles something may have been derived meanwhile, and packed.
        let ready = store.shelf().cache.get(&self.origin).cloned();
        let known = match ready {
            Some(entry) => Some(entry),
            None => store.unpack(&self.origin, &profile).await.or(previous),
        };
        let landing = learn(store, known, profile, fetched).await;
        if let Ok(entry) = &landing {
            store.keep(&self.origin, entry);
        }
        landing
    }

    /// Without a fetch, and ready already; near its end it is fetched for those who come later.
    fn land_recalled(self, ask: Ask, profile: &Arc<Profile>, entry: Arc<Entry>) {
        let store = Arc::clone(&self.store);
        let now = store.clock.wall();
        let ends_soon = entry.state(profile).is_some_and(|(state, _)| state.wants_refresh(now));
        store.landed(&self.origin, None);
        self.landed.send_replace(Some(Ok(Arc::clone(&entry))));
        if ends_soon {
            store.refresh(ask, profile, entry);
        }
    }

    fn land(self, landing: Landing) {
        self.store.landed(&self.origin, landing.as_ref().ok());
        self.landed.send_replace(Some(landing));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.landed.borrow().is_none() {
            self.store.landed(&self.origin, None);
        }
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
    /// Starts the one flight for an origin, if there may be one more. Its client waits for it, as long
    /// as it keeps what is returned.
    pub(super) fn begin(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        question: &Question<'_>,
    ) -> Result<Waiting, Undecided> {
        let previous = shelf.cache.get(question.origin).cloned();
        let ask = Ask {
            origin: question.origin.clone(),
            identity: self.terms.load().fetcher.identity(question.agent),
            validators: None,
            redirects_max: question.profile.redirects_max,
            client: question.client.key(),
            progress: Arc::default(),
        };
        self.launch(shelf, ask, question.profile, previous)
    }

    /// It is a task of its own: it goes on when all who wait for it have left, unless others want its
    /// place.
    pub(super) fn launch(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        ask: Ask,
        profile: &Arc<Profile>,
        previous: Option<Arc<Entry>>,
    ) -> Result<Waiting, Undecided> {
        let room = self.flights.try_acquire(&ask.client).ok_or(Undecided::Busy)?;
        let (flight, landed) = Flight::new(self, ask.origin.clone(), &ask.client, room);
        let waiting = landed.join(&ask.client);
        shelf.flights.insert(ask.origin.clone(), landed);
        // A runtime that is going down drops the task at once, and the flight takes the lock then.
        drop(shelf);
        tokio::spawn(flight.fly(ask, Arc::clone(profile), previous));
        Ok(waiting)
    }

    /// Asks again for what an origin's flight has just brought from a pack or the disk, for it ends soon.
    pub(super) fn refresh(self: &Arc<Self>, ask: Ask, profile: &Arc<Profile>, entry: Arc<Entry>) {
        let shelf = self.shelf();
        if !shelf.flights.contains_key(&ask.origin) && self.fetches.has_place(&ask.client) {
            // Whether it can begin or not, the copy still serves.
            let _ = self.launch(shelf, ask, profile, Some(entry));
        }
    }

    /// What was learnt and the end of the flight become visible in the same instant.
    pub(super) fn landed(&self, origin: &Origin, learnt: Option<&Arc<Entry>>) {
        let mut shelf = self.shelf();
        shelf.flights.remove(origin);
        if let Some(entry) = learnt {
            shelf.cache.put(origin, Arc::clone(entry));
            drop(shelf);
            self.subscribers.tell(origin, entry);
        }
    }
}

/// What `fetched` makes of what was known. A large file is read where it delays nobody else.
async fn learn(
    store: &Arc<Store>,
    known: Option<Arc<Entry>>,
    profile: Arc<Profile>,
    fetched: Fetched,
) -> Landing {
    let (apart, store) = (store.apart.clone(), Arc::clone(store));
    let is_large = fetched.octets() > PARSED_INLINE_OCTETS_MAX;
    let learn = move || {
        let fetched = store.parsed.shared(fetched);
        let read = |snapshot: &_, dialect: &_| store.parsed.read(snapshot, dialect);
        Arc::new(Entry::after(known.as_deref(), &profile, fetched, jitter(), &read))
    };
    if is_large {
        return apart.run(learn).await.ok_or(Undecided::Aborted);
    }
    Ok(learn())
}
