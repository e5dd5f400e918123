//! One fetch under way, and those who wait for it, on whichever runtime they run. It lands once,
//! whatever happens: with what was learnt, with a refusal, or aborted.

use std::sync::{Arc, MutexGuard};

use tokio::sync::watch;

use super::entry::Entry;
use super::question::{Question, jitter};
use super::{Config, Shelf, Store, Undecided};
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
}

/// A waiter's side.
#[derive(Clone)]
pub(super) struct Landed(watch::Receiver<Option<Landing>>);

impl Flight {
    pub(super) fn new(store: &Arc<Store>, origin: Origin) -> (Self, Landed) {
        let (sender, receiver) = watch::channel(None);
        (Self { store: Arc::clone(store), origin, landed: sender }, Landed(receiver))
    }

    /// Looks among the packs and on the disk for what is not ready; where that does not do, fetches; works
    /// out what follows, and lands. A task of its own: nobody's leaving ends it.
    pub(super) async fn fly(
        self,
        ask: Ask,
        profile: Arc<Profile>,
        previous: Option<Arc<Entry>>,
        may_fetch: bool,
    ) {
        let store = Arc::clone(&self.store);
        let previous = match previous {
            Some(entry) => Some(entry),
            None => match store.recall(&self.origin, &profile).await {
                Some(entry) if store.answers(&entry, &profile) => {
                    return self.land_recalled(ask, &profile, entry);
                }
                _ if !may_fetch => return self.land(Err(Undecided::Busy)),
                recalled => recalled,
            },
        };
        // Until it lands: what has been fetched and waits for its room is in no other bound.
        let Ok(_permit) = store.turns.acquire().await else { return };
        let landing = self.fetch(ask, profile, previous).await;
        let _room = match &landing {
            Ok(entry) => Some(store.make_room(entry).await),
            Err(_) => None,
        };
        self.land(landing);
    }

    async fn fetch(&self, ask: Ask, profile: Arc<Profile>, previous: Option<Arc<Entry>>) -> Landing {
        let store = &self.store;
        let begun = store.counters.begin();
        let validators = previous.as_ref().and_then(|entry| entry.validators(&profile));
        let fetcher = Arc::clone(&store.terms.load().fetcher);
        let fetched = fetcher.fetch(Ask { validators, ..ask }).await;
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
    pub(super) async fn entry(mut self) -> Landing {
        match self.0.wait_for(Option::is_some).await {
            Ok(landing) => landing.clone().unwrap_or(Err(Undecided::Aborted)),
            Err(_) => Err(Undecided::Aborted),
        }
    }
}

impl Store {
    /// Starts the one flight for an origin, if there may be one more.
    pub(super) fn begin(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        question: &Question<'_>,
    ) -> Result<Landed, Undecided> {
        let previous = shelf.cache.get(question.origin).cloned();
        let ask = Ask {
            origin: question.origin.clone(),
            identity: self.terms.load().fetcher.identity(question.agent),
            validators: None,
            redirects_max: question.profile.redirects_max,
        };
        self.launch(shelf, ask, question.profile, previous)
    }

    /// It is a task of its own: it goes on when all who wait for it have left.
    pub(super) fn launch(
        self: &Arc<Self>,
        mut shelf: MutexGuard<'_, Shelf>,
        ask: Ask,
        profile: &Arc<Profile>,
        previous: Option<Arc<Entry>>,
    ) -> Result<Landed, Undecided> {
        // What is packed is at hand, however many wait for origins: as many may ask for that as may wait.
        let (queue_max, waiters_max) = {
            let Config { queue_max, waiters_max, .. } = self.terms.load().config;
            (queue_max, waiters_max)
        };
        let may_fetch = shelf.flights.len() < queue_max;
        let is_at_hand = previous.is_none() && shelf.cache.packed(&ask.origin).is_some();
        if !may_fetch && (!is_at_hand || shelf.flights.len() >= queue_max + waiters_max) {
            return Err(Undecided::Busy);
        }
        let (flight, landed) = Flight::new(self, ask.origin.clone());
        shelf.flights.insert(ask.origin.clone(), landed.clone());
        // A runtime that is going down drops the task at once, and the flight takes the lock then.
        drop(shelf);
        tokio::spawn(flight.fly(ask, Arc::clone(profile), previous, may_fetch));
        Ok(landed)
    }

    /// Asks again for what an origin's flight has just brought from a pack or the disk, for it ends soon.
    pub(super) fn refresh(self: &Arc<Self>, ask: Ask, profile: &Arc<Profile>, entry: Arc<Entry>) {
        let shelf = self.shelf();
        if !shelf.flights.contains_key(&ask.origin) {
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
    let store = Arc::clone(store);
    let is_large = fetched.octets() > PARSED_INLINE_OCTETS_MAX;
    let learn = move || {
        let fetched = store.parsed.shared(fetched);
        let read = |snapshot: &_, dialect: &_| store.parsed.read(snapshot, dialect);
        Arc::new(Entry::after(known.as_deref(), &profile, fetched, jitter(), &read))
    };
    if is_large {
        return tokio::task::spawn_blocking(learn).await.map_err(|_| Undecided::Aborted);
    }
    Ok(learn())
}
