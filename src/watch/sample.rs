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
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use foldhash::quality::RandomState;

use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::types::ClientKey;
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

// A uniform sample of the allowed requests of one origin, in bounded memory: algorithm L (K.-H.
// Li, 1994), which computes in advance how many requests to skip until the next one is taken.

/// Requests that are kept of each.
pub(crate) const SAMPLE_PATHS_MAX: usize = 64;

/// Bytes of each sample: paths and tokens, their places in lists, and what the allocator adds. The rest of it and its
/// origin's name take less than 1 KiB.
pub(crate) const SAMPLE_ORIGIN_BYTES_MAX: usize = 7 << 10;

/// Bytes of a path with its query. Longer ones are not sampled.
pub(crate) const SAMPLE_PATH_BYTES_MAX: usize = 1 << 10;

/// Bytes of a product token. Requests of longer ones are not sampled.
const SAMPLE_TOKEN_BYTES_MAX: usize = 64;

/// Agents of a sample, those of other profiles counted apart.
pub(crate) const SAMPLE_AGENTS_MAX: usize = 16;

/// Bytes of an entry beside its text: its place in a list, and the allocator's overhead.
const PIECE_BYTES: usize = 48;

/// The sample of one origin.
#[derive(Debug)]
pub(super) struct Reservoir {
    paths: Vec<Taken>,
    agents: Vec<Agent>,
    /// Of the paths and the tokens, with what they take beside their text.
    bytes: usize,
    /// The largest key of a sampled request, had each request a random one (Li's W).
    largest: f64,
    random: Random,
    /// There has been no room for one more.
    is_full: bool,
}

/// An allowed request.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// With its query.
    pub path: Box<str>,
    pub token: Option<Arc<str>>,
    /// The profile that decided it.
    pub profile: Arc<Profile>,
}

/// The same, with the number of its agent.
#[derive(Debug)]
struct Taken {
    path: Box<str>,
    agent: u32,
}

#[derive(Debug)]
struct Agent {
    number: u32,
    token: Option<Arc<str>>,
    profile: Arc<Profile>,
    /// How many of the requests are its.
    paths: usize,
}

/// Random numbers. A client must not be able to foresee which requests are taken.
#[derive(Debug, Default)]
struct Random {
    hasher: RandomState,
    drawn: u64,
}

impl Reservoir {
    /// No samples.
    pub fn new() -> Self {
        Self {
            paths: Vec::new(),
            agents: Vec::new(),
            bytes: 0,
            largest: 1.0,
            random: Random::default(),
            is_full: false,
        }
    }

    /// Takes a request, in the place of another where all are taken; how many are passed over before the next. One
    /// that is too long is passed over, too.
    pub fn take(&mut self, path: &str, token: Option<&str>, profile: &Arc<Profile>) -> u64 {
        let fits = path.len() <= SAMPLE_PATH_BYTES_MAX
            && token.is_none_or(|token| token.len() <= SAMPLE_TOKEN_BYTES_MAX);
        if fits {
            if self.is_full && !self.has_room(path) {
                self.drop_one();
            }
            self.put(path, token, profile);
        }
        if !self.is_full {
            return 0;
        }
        // As many as there are now: where paths are long, there is room for fewer.
        self.largest *= (self.random.fraction().ln() / self.paths.len().max(1) as f64).exp();
        let passed_over = self.random.fraction().ln() / (-self.largest).ln_1p();
        // Beyond it a conversion would be no number of requests.
        passed_over.min(1e15) as u64
    }

    /// The sample.
    pub fn sampled(&self) -> Vec<Sampled> {
        let agent = |number| self.agents.iter().find(|agent| agent.number == number);
        let sampled = self.paths.iter().filter_map(|taken| {
            let Agent { token, profile, .. } = agent(taken.agent)?;
            Some(Sampled {
                path: taken.path.clone(),
                token: token.clone(),
                profile: Arc::clone(profile),
            })
        });
        sampled.collect()
    }

    /// Bytes that it holds, roughly.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    fn put(&mut self, path: &str, token: Option<&str>, profile: &Arc<Profile>) {
        let agent = self.agent(token, profile);
        self.bytes += path.len() + PIECE_BYTES;
        self.paths.push(Taken { path: path.into(), agent });
        self.count(agent, 1);
        // Any of them, the one that has just come included: else long paths would be rare in the sample.
        while self.bytes > SAMPLE_ORIGIN_BYTES_MAX && !self.paths.is_empty() {
            self.is_full = true;
            self.drop_one();
        }
        self.is_full |= self.paths.len() >= SAMPLE_PATHS_MAX;
    }

    fn has_room(&self, path: &str) -> bool {
        self.paths.len() < SAMPLE_PATHS_MAX
            && self.bytes + path.len() + PIECE_BYTES <= SAMPLE_ORIGIN_BYTES_MAX
    }

    /// The number of an agent. Where there are too many, that of the fewest requests leaves with them: names that a
    /// client makes up do not take the place of those that are in use.
    fn agent(&mut self, token: Option<&str>, profile: &Arc<Profile>) -> u32 {
        let is_it = |agent: &&Agent| {
            agent.token.as_deref() == token && Arc::ptr_eq(&agent.profile, profile)
        };
        if let Some(known) = self.agents.iter().find(is_it) {
            return known.number;
        }
        while self.agents.len() >= SAMPLE_AGENTS_MAX {
            let Some(rarest) =
                self.agents.iter().min_by_key(|agent| agent.paths).map(|agent| agent.number)
            else {
                break;
            };
            while let Some(at) = self.paths.iter().position(|taken| taken.agent == rarest) {
                self.drop_at(at);
            }
        }
        let free = |number: &u32| self.agents.iter().all(|agent| agent.number != *number);
        let number = (0..).find(free).unwrap_or_default();
        self.bytes += token.map_or(0, str::len) + PIECE_BYTES;
        let (token, profile) = (token.map(Arc::from), Arc::clone(profile));
        self.agents.push(Agent { number, token, profile, paths: 0 });
        number
    }

    /// Any of them.
    fn drop_one(&mut self) {
        if !self.paths.is_empty() {
            let at = self.random.below(self.paths.len());
            self.drop_at(at);
        }
    }

    fn drop_at(&mut self, at: usize) {
        let gone = self.paths.swap_remove(at);
        self.bytes -= gone.path.len() + PIECE_BYTES;
        self.count(gone.agent, -1);
    }

    fn count(&mut self, number: u32, step: isize) {
        let Some(at) = self.agents.iter().position(|agent| agent.number == number) else { return };
        let agent = &mut self.agents[at];
        agent.paths = agent.paths.saturating_add_signed(step);
        if agent.paths == 0 {
            let gone = self.agents.swap_remove(at);
            self.bytes -= gone.token.map_or(0, |token| token.len()) + PIECE_BYTES;
        }
    }
}

impl Random {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        self.hasher.hash_one(self.drawn)
    }

    /// Above 0 and below 1.
    fn fraction(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
