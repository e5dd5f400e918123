//! The requests that wait for a robots.txt at one moment, as an operator is shown them.

use serde::{Deserialize, Serialize};

use super::fetch::FetchIdentity;
use super::single_flight::FlightKey;
use super::single_flight::queue::FlightWait;
use crate::clients::ClientWaits;
use crate::types::origin::Origin;

/// The fetches of robots.txt that requests wait for, those with most waiting requests first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchWaits {
    pub fetches: Vec<FetchWait>,
    /// Fetches that are left out.
    pub other_fetches: usize,
    /// Requests that wait for those.
    pub other_waiting: usize,
}

/// A fetch that requests wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchWait {
    pub origin: String,
    /// The User-Agent, without version and contact.
    pub asked_as: String,
    #[serde(flatten)]
    pub clients: ClientWaits,
    /// Milliseconds since it began.
    pub waited_ms: u64,
    /// Whether it waits for other fetches to end: too many are under way (robots.max_fetches).
    pub is_queued: bool,
}

impl FetchWaits {
    /// Of these fetches, at most `max`.
    pub(super) fn of(
        flights: Vec<(FlightKey<Origin, FetchIdentity>, FlightWait)>,
        max: usize,
    ) -> Self {
        let mut fetches: Vec<_> = flights.into_iter().map(FetchWait::of).collect();
        fetches.sort_by(|one, other| {
            let order = |it: &FetchWait| (it.clients.waiting, it.waited_ms);
            order(other).cmp(&order(one)).then_with(|| one.origin.cmp(&other.origin))
        });
        let others = fetches.split_off(max.min(fetches.len()));
        let other_waiting = others.iter().map(|other| other.clients.waiting).sum();
        Self { fetches, other_fetches: others.len(), other_waiting }
    }
}

impl FetchWait {
    fn of((flight, wait): (FlightKey<Origin, FetchIdentity>, FlightWait)) -> Self {
        Self {
            origin: flight.key.to_string(),
            asked_as: flight.identity.as_str().to_owned(),
            clients: wait.clients,
            waited_ms: u64::try_from(wait.time.as_millis()).unwrap_or(u64::MAX),
            is_queued: wait.is_queued,
        }
    }
}
