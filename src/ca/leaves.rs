//! The cache of leaf certificates. A leaf is issued on the first request for its host, once for all
//! concurrent requests, off the event loop if signing is slow, and kept until two thirds of its
//! lifetime have passed, another CA signs, or it is evicted.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};

use lru::LruCache;
use rustls::ServerConfig;
use tokio::sync::{OnceCell, Semaphore};

use super::authority::{Authority, Source};
use super::error::{CA_REMEDY, CaError, CertificateError};
use super::leaf::{Leaf, LeafIssuer};
use crate::runtime::clock::Clock;
use crate::runtime::lock::Lock;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

/// Leaf certificates being made at once: each is some ten microseconds of one core, or a
/// millisecond and more where the CA's key takes its time (RSA, P-384).
const LEAVES_ISSUED_AT_ONCE_MAX: usize = 4;

/// The leaves of a process, and the CA that signs them.
#[derive(Debug)]
pub struct Leaves {
    clock: Arc<dyn Clock>,
    issuer: Arc<LeafIssuer>,
    turns: Semaphore,
    cache: Lock<Cache>,
    counters: Counters,
    /// Whether the invalidity of the CA has been logged.
    is_refusal_said: AtomicBool,
}

/// Counters of the leaf cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Leaves in the cache.
    pub entries: usize,
    /// Leaves issued.
    pub minted: u64,
    /// Requests that found a leaf, or one being issued.
    pub hits: u64,
    /// Leaves evicted for others.
    pub evicted: u64,
}

#[derive(Debug)]
struct Cache {
    source: Source,
    authority: Arc<Authority>,
    /// A slot is inserted before its leaf is issued, and concurrent requests wait for it. If the
    /// slot is removed meanwhile, the leaf is still returned to those that wait, but not cached.
    places: LruCache<Host, Place>,
}

type Place = Arc<OnceCell<Leaf>>;

#[derive(Debug, Default)]
struct Counters {
    minted: AtomicU64,
    hits: AtomicU64,
    evicted: AtomicU64,
}

impl Leaves {
    /// Opens the CA (generates the proxy's own if there is none); caches at most `entries_max`
    /// leaves.
    pub fn open(
        source: Source,
        clock: Arc<dyn Clock>,
        entries_max: NonZeroUsize,
    ) -> Result<Self, CaError> {
        let authority = Arc::new(Authority::open(&source, clock.wall())?);
        Ok(Self {
            clock,
            issuer: Arc::new(LeafIssuer::new()?),
            turns: Semaphore::new(LEAVES_ISSUED_AT_ONCE_MAX),
            cache: Lock::new(Cache { source, authority, places: LruCache::sparse(entries_max) }),
            counters: Counters::default(),
            is_refusal_said: AtomicBool::default(),
        })
    }

    /// The TLS configuration for `host`, whatever the client offers.
    pub async fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, CertificateError> {
        let now = self.clock.wall();
        let (place, authority) = self.place(host, now);
        let leaf = place.get_or_try_init(|| self.make(authority, host, now)).await?;
        Ok(Arc::clone(&leaf.config))
    }

    /// The CA that signs at present.
    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.lock().authority)
    }

    /// Why nothing can be intercepted at present; `None` if the CA is valid.
    pub fn invalidity(&self) -> Option<String> {
        self.authority().certificate().invalidity(self.clock.wall())
    }

    /// As [`Self::invalidity`], for a client's request. Logs the first one, and again after the CA
    /// has been valid.
    pub fn refusal(&self) -> Option<String> {
        let invalidity = self.invalidity();
        let was_said = self.is_refusal_said.swap(invalidity.is_some(), Ordering::Relaxed);
        if let Some(invalidity) = invalidity.as_ref().filter(|_| !was_said) {
            tracing::warn!(
                "HTTPS is not intercepted, and CONNECT is refused: {invalidity}; {CA_REMEDY}"
            );
        }
        invalidity
    }

    /// Reloads the CA, as after a rotation, and returns whether it differs. If it cannot be used,
    /// the previous one continues to sign. Reads files.
    pub fn reload(&self) -> Result<bool, CaError> {
        let source = self.source();
        let authority = self.read(&source)?;
        Ok(self.take_up(source, authority))
    }

    /// Reads a CA and checks that it can sign, for [`Self::take_up`]. Reads files.
    pub fn read(&self, source: &Source) -> Result<Authority, CaError> {
        Authority::open(source, self.clock.wall())
    }

    /// The location of the CA that signs at present.
    pub fn source(&self) -> Source {
        self.lock().source.clone()
    }

    /// Uses this CA from now on, and returns whether it differs.
    pub fn take_up(&self, source: Source, authority: Authority) -> bool {
        let mut cache = self.lock();
        let changed = authority.certificate() != cache.authority.certificate();
        if changed {
            cache.places.clear();
        }
        (cache.source, cache.authority) = (source, Arc::new(authority));
        changed
    }

    /// Changes the number of cached leaves at once.
    pub fn resize(&self, entries_max: NonZeroUsize) {
        let mut cache = self.lock();
        while cache.places.len() > entries_max.get() {
            cache.places.pop_lru();
            count(&self.counters.evicted);
        }
        cache.places.resize(entries_max);
    }

    /// The current counters.
    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            entries: self.lock().places.len(),
            minted: read(&self.counters.minted),
            hits: read(&self.counters.hits),
            evicted: read(&self.counters.evicted),
        }
    }

    /// The slot of a host's leaf, and the CA to sign it if it is empty.
    fn place(&self, host: &Host, now: Timestamp) -> (Place, Arc<Authority>) {
        let mut cache = self.lock();
        let authority = Arc::clone(&cache.authority);
        let held = cache
            .places
            .get(host)
            .filter(|place| place.get().is_none_or(|leaf| leaf.is_fresh(now)));
        if let Some(place) = held.cloned() {
            count(&self.counters.hits);
            return (place, authority);
        }
        let place = Place::default();
        // `push` returns what it displaced: the host's own old leaf, or the least recently used
        // one.
        if let Some((gone, _)) = cache.places.push(host.clone(), Arc::clone(&place))
            && gone != *host
        {
            count(&self.counters.evicted);
        }
        (place, authority)
    }

    async fn make(
        &self,
        authority: Arc<Authority>,
        host: &Host,
        now: Timestamp,
    ) -> Result<Leaf, CertificateError> {
        let _turn = self.turns.acquire().await.map_err(|_| CertificateError::Aborted)?;
        let leaf = if authority.signs_at_once() {
            // Yields, so that a burst of new hosts does not delay other tasks.
            tokio::task::yield_now().await;
            self.issuer.issue(&authority, host, now)?
        } else {
            let (issuer, host) = (Arc::clone(&self.issuer), host.clone());
            let made =
                tokio::task::spawn_blocking(move || issuer.issue(&authority, &host, now)).await;
            made.map_err(|_| CertificateError::Aborted)??
        };
        count(&self.counters.minted);
        Ok(leaf)
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        // No code path leaves the cache inconsistent.
        self.cache.lock()
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
