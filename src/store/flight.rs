//! One fetch under way, and those who wait for it, on whichever runtime they run. It lands once,
//! whatever happens: with what was learnt, with a refusal, or aborted.

use std::sync::Arc;

use tokio::sync::watch;

use super::entry::Entry;
use super::{Store, Undecided, jitter};
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

    /// Fetches, works out what follows, and lands. A task of its own: nobody's leaving ends it.
    pub(super) async fn fly(self, ask: Ask, profile: Arc<Profile>, previous: Option<Arc<Entry>>) {
        let store = Arc::clone(&self.store);
        let Ok(_turn) = store.turns.acquire().await else { return };
        let landing = match store.fetcher.fetch(ask).await {
            Err(refused) => Err(Undecided::Refused(refused.0)),
            Ok(fetched) => {
                // Under other profiles something may have been derived meanwhile.
                let known = store.shelf().cache.get(&self.origin).cloned().or(previous);
                learn(&store, known, profile, fetched).await
            }
        };
        self.land(landing);
    }

    fn land(self, landing: Landing) {
        self.store.landed(&self.origin, &landing);
        self.landed.send_replace(Some(landing));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.landed.borrow().is_none() {
            self.store.landed(&self.origin, &Err(Undecided::Aborted));
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
        let read = |snapshot: &_, dialect: &_| store.parsed.read(snapshot, dialect);
        Arc::new(Entry::after(known.as_deref(), &profile, fetched, jitter(), &read))
    };
    if is_large {
        return tokio::task::spawn_blocking(learn).await.map_err(|_| Undecided::Aborted);
    }
    Ok(learn())
}
