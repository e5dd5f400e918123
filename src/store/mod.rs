//! Stores what is known of each origin's robots.txt, and fetches it once for all that wait.
//!
//! Promises: at most one fetch per origin and agent is in flight, and one per origin until the
//! origin has told agents apart; it outlives the client that caused it, unless others wait for its
//! slot; what one agent was told decides for no other; a returned result is current; entries,
//! bytes, fetches, waiters and waits are bounded. Entries that were not used for long are
//! compressed in memory (`pack`); what memory has no room for, and what the process leaves behind,
//! is on disk (`disk`), so an origin is fetched again when its file is due, not because it was
//! evicted. The store makes no decisions: those are up to `policy`.

mod agents;
mod apart;
mod cache;
mod changes;
mod counters;
pub mod disk;
mod entry;
pub mod fetch;
mod fetches;
mod flight;
mod flights;
mod knowledge;
mod known;
mod landing;
pub mod limits;
mod pack;
mod packing;
mod parsed;
mod question;
mod restore;
#[cfg(test)]
mod tests;
mod upkeep;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;

use crate::clients::{Client, FairSemaphore};
use crate::policy::profile::Profile;
use crate::runtime::clock::{self, Clock};
use crate::store::fetch::FetchRobots;
use crate::types::origin::Origin;
use apart::Apart;
use cache::Cache;
pub use changes::Changes;
use changes::Subscribers;
use counters::Counters;
pub use counters::Stats;
use disk::Disk;
pub use disk::Health;
use fetches::Fetches;
use flights::Flights;
pub use knowledge::{
    Digest, Failed, FieldValue, File, Fingerprint, Good, Kept, Knowledge, OfAgent,
};
pub use known::{Known, Mark, Undecided};
pub use landing::{Follower, Landing, Step};
use pack::Packer;
use parsed::Parsed;
use question::{Look, Question};
pub use upkeep::Report;

/// The bounds of the store.
#[derive(Clone, Debug)]
pub struct Config {
    pub entries_max: NonZeroUsize,
    pub bytes_max: usize,
    /// Concurrent fetches.
    pub fetches_max: usize,
    /// Fetches waiting for a slot.
    pub queue_max: usize,
    /// Requests waiting for a fetch.
    pub waiters_max: usize,
    /// How long a fetch runs undisturbed while others wait for its slot.
    pub busy_wait: Duration,
    /// How long a request waits for a fetch, including the queue. A little more than the fetch's
    /// own timeout, so that the request gets its result.
    pub wait: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            entries_max: NonZeroUsize::new(1_000_000).expect("it is not zero"),
            bytes_max: 256 * 1024 * 1024,
            fetches_max: 256,
            queue_max: 4096,
            waiters_max: 16_384,
            busy_wait: Duration::from_secs(2),
            wait: Duration::from_millis(10_500),
        }
    }
}

impl Config {
    const fn fetches(&self) -> fetches::Bounds {
        fetches::Bounds {
            max: self.fetches_max,
            queue_max: self.queue_max,
            patience: self.busy_wait,
        }
    }

    /// Concurrent flights: those queued for a slot, and those that fetch, read the disk or
    /// decompress for a waiting request.
    const fn flights_max(&self) -> usize {
        self.queue_max.saturating_add(self.waiters_max)
    }
}

/// The store of the process, shared by all workers.
pub struct Store {
    terms: ArcSwap<Terms>,
    clock: Arc<dyn Clock>,
    shelf: Mutex<Shelf>,
    parsed: Parsed,
    apart: Apart,
    /// Held to make room in memory, until the new entry is stored.
    packer: Arc<tokio::sync::Mutex<Packer>>,
    /// `None` without persistence.
    disk: Option<Disk>,
    /// The profiles in use, as set by [`Store::introduce`].
    profiles: Mutex<Vec<Arc<Profile>>>,
    fetches: Arc<Fetches>,
    /// Limits flights, and requests that wait for them.
    flights: Arc<FairSemaphore>,
    waiters: Arc<FairSemaphore>,
    counters: Counters,
    /// Subscribers to changes.
    subscribers: Subscribers,
    follower: OnceLock<Arc<dyn Follower>>,
}

/// What a reload replaces.
struct Terms {
    config: Config,
    fetcher: Arc<dyn FetchRobots>,
}

/// What the lock guards. Flights are not part of the cache: evicting an entry must not start a
/// second fetch.
struct Shelf {
    cache: Cache,
    flights: Flights,
    /// How often an operator had something forgotten.
    forgets: u64,
}

impl Store {
    pub fn new(
        config: Config,
        fetcher: Arc<dyn FetchRobots>,
        clock: Arc<dyn Clock>,
        disk: Option<Disk>,
    ) -> Arc<Self> {
        let shelf = Shelf {
            cache: Cache::new(config.entries_max, config.bytes_max),
            flights: Flights::default(),
            forgets: 0,
        };
        Arc::new(Self {
            fetches: Fetches::new(config.fetches()),
            flights: FairSemaphore::new(config.flights_max()),
            waiters: FairSemaphore::new(config.waiters_max),
            shelf: Mutex::new(shelf),
            parsed: Parsed::default(),
            apart: Apart::default(),
            packer: Arc::default(),
            disk,
            profiles: Mutex::default(),
            counters: Counters::default(),
            subscribers: Subscribers::default(),
            follower: OnceLock::new(),
            terms: ArcSwap::from_pointee(Terms { config, fetcher }),
            clock,
        })
    }

    /// Applies new bounds at once, and another fetcher from the next fetch on.
    pub fn change(&self, config: Config, fetcher: Arc<dyn FetchRobots>) {
        self.fetches.change(config.fetches());
        self.flights.resize(config.flights_max());
        self.waiters.resize(config.waiters_max);
        self.shelf().cache.resize(config.entries_max, config.bytes_max);
        self.terms.store(Arc::new(Terms { config, fetcher }));
    }

    /// What is known of `origin` under `profile`, current at the time of return. `agent` is the
    /// product token that is judged and for which a fetch is made; `client` is the client in whose
    /// turn it waits.
    pub async fn known(
        self: &Arc<Self>,
        origin: &Origin,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> Result<Known, Undecided> {
        let question = Question::new(origin, profile, agent, client);
        let look = self.look(&question, false)?;
        if let Look::Current(known) = look {
            self.counters.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(known);
        }
        self.counters.misses.fetch_add(1, Ordering::Relaxed);
        let wait = self.terms.load().config.wait;
        let _waiter = self.waiters.try_acquire(&client.key()).ok_or(Undecided::Busy)?;
        let since = clock::monotonic();
        let waiting = tokio::time::timeout(wait, self.wait(look, &question));
        let known = Box::pin(waiting).await.unwrap_or(Err(Undecided::TimedOut));
        self.counters.waits.note(clock::monotonic() - since);
        known
    }

    /// Records whether the site's pages respond, for profiles that consider it in a long outage.
    pub fn note_site(&self, origin: &Origin, is_up: bool) {
        let mut shelf = self.shelf();
        if let Some(entry) = shelf.cache.update(origin, |entry| entry.with_site(is_up)) {
            drop(shelf);
            self.keep(origin, &entry);
            self.subscribers.tell(origin, &entry);
        } else if let Some(pack) = shelf.cache.note_site_of_packed(origin, is_up) {
            drop(shelf);
            self.keep_packed(origin, &pack);
        }
    }

    pub fn stats(&self) -> Stats {
        let shelf = self.shelf();
        Stats {
            entries: shelf.cache.len(),
            packed: shelf.cache.packed_len(),
            bytes: shelf.cache.bytes(),
            flights: shelf.flights.len(),
            parsed: self.parsed.len(),
            waiters: self.waiters.in_use(),
            hits: self.counters.hits.load(Ordering::Relaxed),
            misses: self.counters.misses.load(Ordering::Relaxed),
            unpacked: self.counters.unpacked.load(Ordering::Relaxed),
            fetches: self.counters.fetches.load(Ordering::Relaxed),
            waits: self.counters.waits.counts(),
        }
    }

    /// The number of fetches by result.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters.results().into_iter()
    }

    fn profiles(&self) -> MutexGuard<'_, Vec<Arc<Profile>>> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // No code path leaves the state inconsistent.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("config", &self.terms.load().config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
