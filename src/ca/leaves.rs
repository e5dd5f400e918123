//! The leaf of each host that is intercepted: made when it is first asked for, once for everybody
//! who asks meanwhile, off the event loop where the CA's key takes its time, and kept until it is two
//! thirds through its life, another CA signs, or too many others have been asked for since.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use rustls::ServerConfig;
use tokio::sync::{OnceCell, Semaphore};

use super::authority::{Authority, Source};
use super::error::{CURE, CaError, MintError};
use super::leaf::{Leaf, Mint};
use crate::runtime::clock::Clock;
use crate::types::origin::Host;
use crate::types::timestamp::Timestamp;

/// Leaf certificates being made at once: each is some ten microseconds of one core, or a millisecond and more
/// where the CA's key takes its time (RSA, P-384).
const LEAVES_MINTED_AT_ONCE_MAX: usize = 4;

/// The leaves of a process, and the CA that signs them.
#[derive(Debug)]
pub struct Leaves {
    clock: Arc<dyn Clock>,
    mint: Arc<Mint>,
    turns: Semaphore,
    shelf: Mutex<Shelf>,
    counters: Counters,
    /// Whether the log has that the CA is not valid.
    is_refusal_said: AtomicBool,
}

/// What the leaves count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Leaves in memory.
    pub entries: usize,
    pub minted: u64,
    /// Asked for and there, or under way.
    pub hits: u64,
    /// Taken away for others.
    pub evicted: u64,
}

#[derive(Debug)]
struct Shelf {
    source: Source,
    authority: Arc<Authority>,
    /// A place is taken before its leaf is made: that is what everybody else waits on. A leaf that
    /// is made for a place that has been cleared away is served to those who wait, and not kept.
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
    /// Opens the CA (ours is made when there is none) and keeps at most `entries_max` leaves.
    pub fn open(
        source: Source,
        clock: Arc<dyn Clock>,
        entries_max: NonZeroUsize,
    ) -> Result<Self, CaError> {
        let authority = Arc::new(Authority::open(&source, clock.wall())?);
        Ok(Self {
            clock,
            mint: Arc::new(Mint::new()?),
            turns: Semaphore::new(LEAVES_MINTED_AT_ONCE_MAX),
            shelf: Mutex::new(Shelf { source, authority, places: LruCache::sparse(entries_max) }),
            counters: Counters::default(),
            is_refusal_said: AtomicBool::default(),
        })
    }

    /// How to answer a handshake for `host`, whatever the client offers.
    pub async fn server_config(&self, host: &Host) -> Result<Arc<ServerConfig>, MintError> {
        let now = self.clock.wall();
        let (place, authority) = self.place(host, now);
        let leaf = place.get_or_try_init(|| self.make(authority, host, now)).await?;
        Ok(Arc::clone(&leaf.config))
    }

    /// The CA that signs now.
    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.shelf().authority)
    }

    /// Why nothing can be intercepted now; `None` where the CA is valid.
    pub fn invalidity(&self) -> Option<String> {
        self.authority().certificate().invalidity(self.clock.wall())
    }

    /// As [`Self::invalidity`], for a client that asks to be intercepted. The log has the first of them, and
    /// again after the CA has been valid.
    pub fn refusal(&self) -> Option<String> {
        let invalidity = self.invalidity();
        let was_said = self.is_refusal_said.swap(invalidity.is_some(), Ordering::Relaxed);
        if let Some(invalidity) = invalidity.as_ref().filter(|_| !was_said) {
            tracing::warn!(
                "HTTPS is not intercepted, and CONNECT is refused: {invalidity}; {CURE}"
            );
        }
        invalidity
    }

    /// Reads the CA again, as after a rotation, and says whether it is another one. When it cannot
    /// be used, what was read before goes on signing. Reads files.
    pub fn reload(&self) -> Result<bool, CaError> {
        let source = self.source();
        let authority = self.read(&source)?;
        Ok(self.take_up(source, authority))
    }

    /// Reads a CA and finds it fit to sign, for [`Self::take_up`]. Reads files.
    pub fn read(&self, source: &Source) -> Result<Authority, CaError> {
        Authority::open(source, self.clock.wall())
    }

    /// Where the CA is that signs now.
    pub fn source(&self) -> Source {
        self.shelf().source.clone()
    }

    /// Goes on with this CA, and says whether it is another one.
    pub fn take_up(&self, source: Source, authority: Authority) -> bool {
        let mut shelf = self.shelf();
        let changed = authority.certificate() != shelf.authority.certificate();
        if changed {
            shelf.places.clear();
        }
        (shelf.source, shelf.authority) = (source, Arc::new(authority));
        changed
    }

    /// Another bound on leaves, which holds at once.
    pub fn resize(&self, entries_max: NonZeroUsize) {
        let mut shelf = self.shelf();
        while shelf.places.len() > entries_max.get() {
            shelf.places.pop_lru();
            count(&self.counters.evicted);
        }
        shelf.places.resize(entries_max);
    }

    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            entries: self.shelf().places.len(),
            minted: read(&self.counters.minted),
            hits: read(&self.counters.hits),
            evicted: read(&self.counters.evicted),
        }
    }

    /// The place of a host's leaf, and who is to sign if it is empty.
    fn place(&self, host: &Host, now: Timestamp) -> (Place, Arc<Authority>) {
        let mut shelf = self.shelf();
        let authority = Arc::clone(&shelf.authority);
        let held = shelf
            .places
            .get(host)
            .filter(|place| place.get().is_none_or(|leaf| leaf.is_fresh(now)));
        if let Some(place) = held.cloned() {
            count(&self.counters.hits);
            return (place, authority);
        }
        let place = Place::default();
        // `push` returns what had to go: the host's own old leaf, or the least recently used.
        if let Some((gone, _)) = shelf.places.push(host.clone(), Arc::clone(&place))
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
    ) -> Result<Leaf, MintError> {
        let _turn = self.turns.acquire().await.map_err(|_| MintError::Aborted)?;
        let leaf = if authority.signs_at_once() {
            // Of a crowd of new hosts few have their leaves made before everybody else has a turn.
            tokio::task::yield_now().await;
            self.mint.leaf(&authority, host, now)?
        } else {
            let (mint, host) = (Arc::clone(&self.mint), host.clone());
            let made = tokio::task::spawn_blocking(move || mint.leaf(&authority, &host, now)).await;
            made.map_err(|_| MintError::Aborted)??
        };
        count(&self.counters.minted);
        Ok(leaf)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        // Nothing between lock and unlock leaves a shelf half changed.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
