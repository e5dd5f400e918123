//! A sample of allowed requests for each of the busiest origins: allowed requests leave no record,
//! and a change of a robots.txt is measured by how many of them it would have denied.
//!
//! It costs a request a hash and a step of a counter; a path is copied only when it is taken.
//! Nothing here waits for a lock on a request's way. Origins compete for places as the lines of a
//! processor's cache do: each belongs to one small set of places. A client takes places only from
//! those that have more than it, or from itself, and first those of origins without a request since
//! another client wanted the place.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use foldhash::quality::RandomState;

use super::reservoir::Reservoir;
pub use super::reservoir::Sampled;
use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;

/// Origins of which a sample of the allowed requests is kept in memory, to measure changes of their robots.txt by. In
/// all they take no more than 32 MiB.
pub(crate) const SAMPLE_ORIGINS_MAX: usize = 4096;

/// Places that an origin may have one of: as of a cache that is four-way associative.
const SAMPLE_PLACES_OF_SET: usize = 4;

const SETS: usize = SAMPLE_ORIGINS_MAX / SAMPLE_PLACES_OF_SET;

/// Clients are distinguished by so many numbers; two with the same number share one quota.
const OWNERS: usize = 1024;

/// The samples of all origins.
pub struct Samples {
    random: RandomState,
    sets: Box<[Set]>,
    /// How many places each client has.
    owned: Box<[AtomicU32]>,
}

/// An allowed request, as it is offered.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    pub origin: &'a Origin,
    /// With its query.
    pub path: &'a str,
    pub token: Option<&'a str>,
    pub profile: &'a Arc<Profile>,
    /// Whether the values of the query are to be left out.
    pub is_redacted: bool,
}

#[derive(Debug)]
#[repr(align(64))]
struct Set {
    places: [Place; SAMPLE_PLACES_OF_SET],
    held: Lock<[Option<Box<Held>>; SAMPLE_PLACES_OF_SET]>,
}

/// The counter that a request reads.
#[derive(Debug, Default)]
struct Place {
    /// The hash of the origin; zero where there is none.
    tag: AtomicU64,
    /// Requests that are passed over before one is taken.
    left: AtomicU64,
}

#[derive(Debug)]
struct Held {
    origin: Origin,
    owner: usize,
    reservoir: Reservoir,
    /// [`Place::left`] when another origin last wanted the place, and how often one has wanted it since the last
    /// request.
    left_then: Option<u64>,
    wanted: u32,
}

impl Samples {
    /// The origin has had a request of `client` that was allowed.
    #[inline]
    pub fn note(&self, offer: Offer<'_>, client: impl FnOnce() -> ClientKey) {
        let tag = self.random.hash_one(offer.origin) | 1;
        let set = &self.sets[(tag >> 32) as usize % SETS];
        match set.places.iter().position(|place| place.tag.load(Relaxed) == tag) {
            // One thread alone finds zero; counts of others in between wrap around and are
            // overwritten.
            Some(at) if set.places[at].left.fetch_sub(1, Relaxed) != 0 => {}
            Some(at) => set.take(at, offer),
            None => self.admit(set, tag, offer, &client()),
        }
    }

    /// The sample of `origin`.
    pub fn of(&self, origin: &Origin) -> Vec<Sampled> {
        let tag = self.random.hash_one(origin) | 1;
        let set = &self.sets[(tag >> 32) as usize % SETS];
        let held = set.held.lock();
        let found = held.iter().flatten().find(|held| held.origin == *origin);
        found.map(|held| held.reservoir.sampled()).unwrap_or_default()
    }

    /// Removes all.
    pub fn clear(&self) {
        for set in &self.sets {
            let mut held = set.held.lock();
            for (place, held) in set.places.iter().zip(held.iter_mut()) {
                place.tag.store(0, Relaxed);
                if let Some(gone) = held.take() {
                    self.owned[gone.owner].fetch_sub(1, Relaxed);
                }
            }
        }
    }

    /// Bytes that the samples hold, and how many origins have one.
    pub fn size(&self) -> (usize, usize) {
        let of_set = |set: &Set| {
            let held = set.held.lock();
            let bytes = |held: &Held| size_of::<Held>() + held.reservoir.bytes();
            held.iter().flatten().fold((0, 0), |(sum, count), held| (sum + bytes(held), count + 1))
        };
        let own = size_of_val(&*self.sets) + size_of_val(&*self.owned);
        self.sets.iter().map(of_set).fold((own, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// Gives the origin a place, if there is one for it.
    #[cold]
    fn admit(&self, set: &Set, tag: u64, offer: Offer<'_>, client: &ClientKey) {
        let Some(mut held) = set.try_held() else { return };
        let owner = self.random.hash_one(client) as usize % OWNERS;
        let Some(at) = self.place_for(set, &mut held, owner) else { return };
        if let Some(gone) = held[at].take() {
            self.owned[gone.owner].fetch_sub(1, Relaxed);
        }
        self.owned[owner].fetch_add(1, Relaxed);
        let (origin, reservoir) = (offer.origin.clone(), Reservoir::new());
        let new = held[at].insert(Box::new(Held {
            origin,
            owner,
            reservoir,
            left_then: None,
            wanted: 0,
        }));
        let left = offer.put_in(&mut new.reservoir);
        set.places[at].left.store(left, Relaxed);
        set.places[at].tag.store(tag, Relaxed);
    }

    /// A place that is free, or that may be taken away: of the client itself, or of one that has more; and not asked
    /// for since it was last wanted.
    fn place_for(&self, set: &Set, held: &mut Slots, owner: usize) -> Option<usize> {
        if let Some(free) = held.iter().position(Option::is_none) {
            return Some(free);
        }
        let own = self.owned[owner].load(Relaxed);
        let may_go = |held: &Held| {
            held.owner == owner || self.owned[held.owner].load(Relaxed) > own.saturating_add(1)
        };
        for (held, place) in held.iter_mut().zip(&set.places) {
            let Some(held) = held else { continue };
            let left = Some(place.left.load(Relaxed));
            let is_idle = std::mem::replace(&mut held.left_then, left) == left;
            held.wanted = if is_idle { held.wanted.saturating_add(1) } else { 0 };
        }
        let candidates =
            held.iter().enumerate().filter_map(|(at, held)| Some((at, held.as_deref()?)));
        let idle = candidates.filter(|(_, held)| may_go(held) && held.wanted > 0);
        idle.max_by_key(|(_, held)| held.wanted).map(|(at, _)| at)
    }
}

type Slots = [Option<Box<Held>>; SAMPLE_PLACES_OF_SET];

impl Set {
    /// Takes this request of the origin that has the place.
    #[cold]
    fn take(&self, at: usize, offer: Offer<'_>) {
        // Another is at it; the next request will do as well.
        let left = self.try_held().map_or(0, |mut held| match &mut held[at] {
            Some(held) if held.origin == *offer.origin => offer.put_in(&mut held.reservoir),
            _ => 0,
        });
        self.places[at].left.store(left, Relaxed);
    }

    /// Nothing while another thread holds the lock.
    fn try_held(&self) -> Option<std::sync::MutexGuard<'_, Slots>> {
        self.held.try_lock()
    }
}

impl Offer<'_> {
    fn put_in(&self, reservoir: &mut Reservoir) -> u64 {
        if self.is_redacted {
            reservoir.take(&without_values(self.path), self.token, self.profile)
        } else {
            reservoir.take(self.path, self.token, self.profile)
        }
    }
}

/// A path without the values of its query: `/a?q=&page=`.
pub fn without_values(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let names = query.split('&').map(|part| part.find('=').map_or("", |at| &part[..=at]));
    format!("{path}?{}", names.collect::<Vec<_>>().join("&"))
}

impl Default for Samples {
    fn default() -> Self {
        let set = || Set { places: Default::default(), held: Lock::default() };
        Self {
            random: RandomState::default(),
            sets: (0..SETS).map(|_| set()).collect(),
            owned: (0..OWNERS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").finish_non_exhaustive()
    }
}
