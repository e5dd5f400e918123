//! A fetch in flight, as a lookup waits for it.

use std::sync::Arc;

use super::entry::Entry;
use super::origin_robots::Undecided;
use super::single_flight;

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
