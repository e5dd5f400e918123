//! The state of egress that all workers share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::Semaphore;

use super::config::{Config, ConfigSnapshot, Counters, Stats};
use super::dns::Resolver;
use super::error::Error;
use super::http1::BUFFER_PERMITS_MAX;
use super::parent::ParentStats;
use super::pool::{Pool, Pools};
use crate::clients::{BodyMemory, FairSemaphore};
use crate::pace::{Lanes, Turn};
use crate::types::ClientKey;

/// What all workers share: the configuration, DNS, the registry of pools.
pub struct EgressState {
    current: Arc<ArcSwap<ConfigSnapshot>>,
    pub(super) resolver: Resolver,
    /// Permits for connection attempts besides the first one of a request.
    pub(super) attempts: Arc<FairSemaphore>,
    pub(super) counters: Counters,
    /// The memory that requests may hold, in all and for each client.
    pub(super) memory: Arc<BodyMemory>,
    /// Permits for connections that read in the largest pieces.
    pub(super) buffer_permits: Arc<Semaphore>,
    pools: Arc<Pools>,
    lanes: Arc<Lanes>,
}

/// What a change of the configuration has changed in the files that it names.
#[derive(Clone, Copy, Debug)]
pub struct EgressChange {
    /// A parent that stays has other credentials.
    pub parent_credentials: bool,
    /// Other certificate authorities are trusted.
    pub roots: bool,
}

impl EgressState {
    /// With a memory budget of its own.
    pub fn new(snapshot: ConfigSnapshot, lanes: Arc<Lanes>) -> Arc<Self> {
        Self::with_memory(snapshot, lanes, Arc::default())
    }

    /// With `memory` as the budget of requests.
    pub fn with_memory(
        snapshot: ConfigSnapshot,
        lanes: Arc<Lanes>,
        memory: Arc<BodyMemory>,
    ) -> Arc<Self> {
        let Config { max_lookups, max_attempts_beside, .. } = snapshot.config;
        Arc::new(Self {
            current: Arc::new(ArcSwap::from_pointee(snapshot)),
            resolver: Resolver::new(max_lookups),
            attempts: FairSemaphore::new(max_attempts_beside),
            counters: Counters::default(),
            memory,
            buffer_permits: Arc::new(Semaphore::new(BUFFER_PERMITS_MAX)),
            pools: Arc::default(),
            lanes,
        })
    }

    /// Replaces the configuration for everything that begins from now on. Exchanges under way end
    /// as they began. Returns what is other than before.
    pub fn change(&self, mut snapshot: ConfigSnapshot) -> EgressChange {
        let former = self.load();
        let change = EgressChange {
            parent_credentials: snapshot.parents.has_other_credentials(&former.parents),
            roots: !snapshot.tls.has_roots_of(&former.tls),
        };
        drop(former);
        snapshot.parents.keep_known(&self.load().parents);
        let Config { max_lookups, max_attempts_beside, .. } = snapshot.config;
        self.current.store(Arc::new(snapshot));
        self.resolver.resize(max_lookups);
        self.attempts.resize(max_attempts_beside);
        change
    }

    /// Looks `name` up, in the client's turn; its addresses are not judged.
    ///
    /// # Errors
    ///
    /// [`Failure::NameNotFound`](super::Failure::NameNotFound), or why that is not known.
    pub async fn look_up(&self, name: &str, client: &ClientKey) -> Result<(), Error> {
        self.resolver.resolve(name, client.into()).await.map(drop)
    }

    /// The lanes, which give turns.
    pub const fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// The current configuration, to be kept.
    pub(super) fn snapshot(&self) -> Arc<ConfigSnapshot> {
        self.current.load_full()
    }

    /// The current configuration, for a short read: without a reference count that all workers
    /// would write to. A thread can hold only a few of these guards cheaply.
    pub(super) fn load(&self) -> Guard<Arc<ConfigSnapshot>> {
        self.current.load()
    }

    /// A new pool, registered to be counted.
    pub(super) fn add_pool(&self) -> Arc<Pool> {
        let pool = Pool::new(Arc::clone(&self.current), Arc::clone(&self.memory), true);
        self.pools.add(&pool);
        pool
    }

    /// A pool that keeps nothing.
    pub(super) fn no_pool(&self) -> Arc<Pool> {
        Pool::new(Arc::clone(&self.current), Arc::clone(&self.memory), false)
    }

    /// Counts a request, or a tunnel, in its `turn` if it goes to its origin by a parent proxy.
    pub(super) fn note_exchange(&self, turn: &Turn) {
        if self.load().parents.of(turn.origin().host()).is_none() {
            return;
        }
        self.counters.by_parent.fetch_add(1, Ordering::Relaxed);
        if !turn.is_for_robots_txt() {
            self.counters.forwarded_by_parent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests, fetches of robots.txt and tunnels that went by a parent proxy.
    pub fn by_parent(&self) -> u64 {
        self.counters.by_parent.load(Ordering::Relaxed)
    }

    /// The count of requests and tunnels of clients that went by a parent proxy.
    pub fn forwarded_by_parent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.counters.forwarded_by_parent)
    }

    /// The state of the parent proxies.
    pub fn parent_stats(&self) -> Vec<ParentStats> {
        self.load().parents.stats()
    }

    /// The counts of all workers.
    pub fn stats(&self) -> Stats {
        let exchanges = self.lanes.exchanges();
        let (mut idle, mut streams, mut busy) = (0, 0, 0);
        for pool in self.pools.all() {
            let http2 = pool.http2.usage();
            idle += pool.idle() + http2.idle;
            streams += http2.streams;
            busy += http2.busy;
        }
        Stats {
            idle,
            // An exchange has a connection of its own, or a stream of a shared one.
            in_use: exchanges.saturating_sub(streams) + busy,
            connect: self.counters.connect.counts(),
        }
    }
}

impl fmt::Debug for EgressState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressState").field("config", &self.load().config).finish_non_exhaustive()
    }
}
