//! One fetch under way, and those who wait for it, on whichever runtime they run.

use std::sync::Arc;

use tokio::sync::watch;

use super::entry::Entry;
use super::{Store, Undecided};
use crate::origin::Origin;

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

    pub(super) fn land(self, landing: Landing) {
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
