//! Stores what is known of each origin's robots.txt, and fetches it once for all that wait.
//!
//! | word | meaning |
//! | --- | --- |
//! | entry | what is stored of one origin: the common copy, and the answers to single agents |
//! | common copy | the robots.txt as this program alone got it, without the name of an agent |
//! | answer | the last file and the last failure that one identity got, and the states that follow |
//! | state | what an answer means for one profile and agent (RFC 9309 §2.3.1); derived from it when it is first needed |
//! | lookup | the question of one request for the state of an origin |
//! | flight | one fetch under way, with the lookups that wait for it |
//! | permit of a fetch | one of the bounded number of fetches at a time, which a flight waits for |
//! | lease | the right to fetch for all proxies that share an engine |
//!
//! Promises: at most one fetch per origin and agent is in flight; it outlives the client that
//! caused it, unless others wait for its permit; a returned result is current; entries, bytes,
//! fetches, waiters and waits are bounded. The file of an origin is fetched for the first agent that
//! asks, and once more, as this program alone, when a second one does (the common copy); where both
//! are the same, it decides for all, else each agent has its own (`entry`). So one agent's answers
//! decide for no other. What memory has no room for, and what
//! the process leaves behind, is on disk (`disk`), so an origin is fetched again when its file is
//! due, not because it was evicted. The store makes no decisions: those are up to `policy`.
//!
//! A `lookup` reads the `entries` (in memory, then on disk). What is not current
//! there starts or joins a flight in `single_flight`; its task in `fetch_task` fetches, stores
//! the new entry, and wakes the waiters. `fetch_coordinator` adds what other proxies have fetched.

mod agents;
mod answer;
mod counters;
pub mod disk;
mod entries;
mod entry;
pub mod fetch;
mod fetch_coordinator;
mod fetch_listener;
mod fetch_task;
mod fetch_waits;
mod lookup;
mod memory;
mod origin_robots;
mod persisted;
mod single_flight;
#[cfg(test)]
mod tests;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::clients::{Client, FairSemaphore};
use crate::engine::{Engine, LocalHealth};
use crate::policy::profile::Profile;
use crate::runtime::clock::{self, Clock, monotonic};
use crate::types::origin::Origin;
use counters::Counters;
pub use counters::{EngineReport, Report, Stats};
use disk::Disk;
use entries::Entries;
use fetch::FetchRobots;
use fetch_coordinator::{FetchCoordinator, StoreCore};
pub use fetch_listener::{FetchEvent, FetchListener, StateChange};
use fetch_listener::{ListenerSlot, Mailbox, Subscribers};
pub use fetch_waits::{FetchWait, FetchWaits};
use lookup::{Attempt, Lookup};
use memory::Memory;
pub use origin_robots::{OriginRobots, Undecided, WeakOriginRobots};
pub use persisted::{
    Digest, Failed, FieldValue, File, Fingerprint, Good, Persisted, PersistedAgent, PersistedState,
    PublishedEntry,
};
use single_flight::{SingleFlight, queue};

/// The store of the process, shared by all workers.
pub struct Store {
    config: ArcSwap<Config>,
    core: Arc<StoreCore>,
    /// Limits the requests that wait for fetches.
    waiters: Arc<FairSemaphore>,
}

impl Store {
    /// A store that fetches by `fetcher`, and keeps entries in memory and on `disk`.
    pub fn new(
        config: Config,
        fetcher: Arc<dyn FetchRobots>,
        clock: Arc<dyn Clock>,
        disk: Option<Disk>,
    ) -> Arc<Self> {
        let memory = Memory::new(config.entries_max, config.bytes_max);
        let core = StoreCore {
            entries: Arc::new(Entries::new(memory, disk)),
            flights: SingleFlight::new(config.flights()),
            fetcher: ArcSwap::from_pointee(fetcher),
            clock,
            counters: Counters::default(),
            subscribers: Subscribers::default(),
            listener: ListenerSlot::default(),
            engine: FetchCoordinator::default(),
        };
        Arc::new(Self {
            core: Arc::new(core),
            waiters: FairSemaphore::new(config.waiters_max),
            config: ArcSwap::from_pointee(config),
        })
    }

    /// Applies new bounds at once, and another fetcher from the next fetch on.
    pub fn change(&self, config: Config, fetcher: Arc<dyn FetchRobots>) {
        self.core.flights.resize(config.flights());
        self.waiters.resize(config.waiters_max);
        self.core.entries.lock().memory.resize(config.entries_max, config.bytes_max);
        self.core.fetcher.store(Arc::new(fetcher));
        self.config.store(Arc::new(config));
    }

    /// Sets the profiles in use, before the first lookup for them: a restored entry gets states
    /// for all of them, whichever is looked up first. Replaces the earlier ones.
    pub fn set_profiles<'a>(&self, profiles: impl IntoIterator<Item = &'a Arc<Profile>>) {
        self.core.entries.builder.set_profiles(profiles);
    }

    /// Reports every later fetch that ends with a result to `listener`. Only the first call has an
    /// effect.
    pub fn set_listener(&self, listener: Arc<dyn FetchListener>) {
        self.core.listener.set(listener);
    }

    /// Shares what is fetched with the other proxies of `engine`, and takes up what they fetch.
    /// Only the first call has an effect.
    pub fn set_engine(&self, engine: Arc<dyn Engine>) {
        self.core.engine.set(engine);
    }

    /// What is known of `origin` for `profile`, current at the time of return. `agent` is the
    /// product token that is judged and for which a fetch is made; `client` is the client on
    /// whose account it waits.
    ///
    /// # Errors
    ///
    /// Why the origin is undecided.
    pub async fn lookup(
        &self,
        origin: &Origin,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> Result<OriginRobots, Undecided> {
        let lookup = Lookup::new(&self.core, origin, profile, agent, client);
        let counters = &self.core.counters;
        let attempt = lookup.attempt(None)?;
        if let Attempt::Current(known) = attempt {
            counters.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(known);
        }
        counters.misses.fetch_add(1, Ordering::Relaxed);
        let wait = self.config.load().wait;
        let _waiter = self.waiters.try_acquire(&client.key()).ok_or(Undecided::Busy)?;
        let since = clock::monotonic();
        let waiting = tokio::time::timeout(wait, lookup.wait(attempt));
        let known = Box::pin(waiting).await.unwrap_or(Err(Undecided::TimedOut));
        counters.waits.note(clock::monotonic() - since);
        known
    }

    /// Subscribes to what becomes known of `origin`. The first change is what is known now.
    pub fn changes(&self, origin: &Origin) -> Changes {
        Changes::of(&self.core, origin)
    }

    /// Records whether the site's pages respond, for profiles that consider it in a long outage.
    pub fn note_site(&self, origin: &Origin, is_up: bool) {
        if let Some(entry) = self.core.entries.note_site(origin, is_up) {
            self.core.subscribers.notify(origin, &entry);
        }
    }

    /// What is known of `origin`, in memory or on disk.
    pub async fn get(&self, origin: &Origin) -> Option<Report> {
        self.core.entries.report(origin).await
    }

    /// What the proxies that share an engine know of `origin`; `None`: no engine is set.
    pub async fn get_from_engine(&self, origin: &Origin) -> Option<EngineReport> {
        self.core.engine.report(origin).await
    }

    /// Removes `origin` from memory and disk, and from what proxies share. Returns whether it was
    /// known. A fetch in flight stores its own result, and nothing of what was known before.
    pub async fn forget(&self, origin: &Origin) -> bool {
        let was_known = self.get(origin).await.is_some();
        self.core.engine.forget(origin).await;
        self.core.entries.forget(origin, || self.core.flights.forget(origin));
        was_known
    }

    /// What waits for fetches at this moment: at most `max` of them. A walk through all.
    pub fn waits(&self, max: usize) -> FetchWaits {
        FetchWaits::of(self.core.flights.waits(), max)
    }

    /// The counters at one moment.
    pub fn stats(&self) -> Stats {
        let StoreCore { entries, flights, counters, .. } = &*self.core;
        let state = entries.lock();
        Stats {
            entries: state.memory.len(),
            bytes: state.memory.bytes(),
            flights: flights.len(),
            parsed: entries.builder.parse_cache.len(),
            waiters: self.waiters.in_use(),
            hits: counters.hits.load(Ordering::Relaxed),
            misses: counters.misses.load(Ordering::Relaxed),
            fetches: counters.fetches.load(Ordering::Relaxed),
            waits: counters.waits.counts(),
        }
    }

    /// The number of fetches by result.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.core.counters.results().into_iter()
    }

    /// The disk, if there is one.
    pub fn disk(&self) -> Option<&Disk> {
        self.core.entries.disk()
    }

    /// The health of the disk.
    pub fn health(&self) -> LocalHealth {
        self.disk().map(Disk::health).unwrap_or_default()
    }

    /// Writes what waits to be written to the file, and closes that; waits for it until `deadline`, and
    /// five seconds at most.
    pub fn close_by(&self, deadline: Instant) {
        if let Some(Disk(file)) = self.disk() {
            let left = deadline.saturating_duration_since(monotonic());
            file.close_within(left.min(CLOSE_TIMEOUT));
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("config", &self.config.load())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// How long the end of the process waits for the file.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The bounds of the store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Entries in memory. A thousand bytes are the least that one takes.
    pub entries_max: NonZeroUsize,
    /// Bytes of the entries in memory.
    pub bytes_max: usize,
    /// Concurrent fetches.
    pub fetches_max: usize,
    /// Fetches waiting for a permit.
    pub queue_max: usize,
    /// Requests waiting for a fetch.
    pub waiters_max: usize,
    /// How long a fetch runs undisturbed while others wait for its permit: time to resend a lost
    /// segment (RFC 6298 §2: a second at first).
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
    /// The bounds of flights. They include those queued for a permit, and those that fetch, or read
    /// the disk, for a waiting request.
    const fn flights(&self) -> single_flight::Bounds {
        single_flight::Bounds {
            max: self.queue_max.saturating_add(self.waiters_max),
            queue: queue::Bounds {
                max: self.fetches_max,
                queue_max: self.queue_max,
                busy_wait: self.busy_wait,
            },
        }
    }
}

// Notifies long-lived work (such as tunnels) of changes to the origin's rules, under which it was
// permitted.

/// A subscription to changes of an origin; ends when dropped.
pub struct Changes {
    core: Arc<StoreCore>,
    origin: Origin,
    mailbox: Arc<Mailbox>,
}

impl Changes {
    /// Subscribes to what becomes known of `origin`. The first change is what is known now.
    fn of(core: &Arc<StoreCore>, origin: &Origin) -> Self {
        let mailbox = Arc::default();
        let changes = Self { core: Arc::clone(core), origin: origin.clone(), mailbox };
        core.subscribers.add(origin, &changes.mailbox);
        // A fetch may have completed since the work was permitted.
        let entry = core.entries.lock().memory.peek(origin).cloned();
        if let Some(entry) = entry {
            changes.mailbox.deliver_first(entry);
        }
        changes
    }

    /// Waits for the next change and returns what is then known under `profile`, for an agent with
    /// this product token.
    pub async fn next(
        &self,
        profile: &Arc<Profile>,
        agent: Option<&str>,
        client: &Client,
    ) -> OriginRobots {
        let lookup = Lookup::new(&self.core, &self.origin, profile, agent, client);
        loop {
            let entry = self.mailbox.next().await;
            // An entry that is already due decides nothing.
            if let Some(known) = lookup.derive(&entry) {
                return known;
            }
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.core.subscribers.remove(&self.origin, &self.mailbox);
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").field("origin", &self.origin).finish_non_exhaustive()
    }
}
