//! A sample of allowed requests for each of the busiest origins: allowed requests leave no record,
//! and a change of a robots.txt is measured by how many of them it would have denied.
//!
//! It costs a request a hash and a step of a counter; a path is copied only when it is taken, and no
//! request waits for a lock. An origin has a slot of one small set, as a line of a processor's cache,
//! until another one wants it while it is idle.

use std::collections::hash_map::RandomState as Keyed;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use foldhash::quality::RandomState;

use crate::policy::profile::Profile;
use crate::runtime::lock::Lock;
use crate::types::origin::Origin;

/// Origins with a sample: with [`SAMPLE_BYTES_MAX`] each, 32 MiB.
pub(super) const SAMPLE_ORIGINS_MAX: usize = 4096;
/// Requests of a sample.
pub(super) const SAMPLE_PATHS_MAX: usize = 64;
/// Bytes of a sample, with what the allocator adds to each path and token.
pub(super) const SAMPLE_BYTES_MAX: usize = 7 << 10;
/// Bytes of a path with its query, and of a token. Longer ones are not sampled.
pub(super) const SAMPLE_PATH_BYTES_MAX: usize = 1 << 10;
const TOKEN_BYTES_MAX: usize = 64;
/// Bytes of a sampled request beside its text.
const ENTRY_BYTES: usize = 96;

const SLOTS_OF_SET: usize = 4;
const SETS: usize = SAMPLE_ORIGINS_MAX / SLOTS_OF_SET;

/// The samples of all origins.
pub struct Samples {
    random: RandomState,
    sets: Box<[Set]>,
}

/// An allowed request that may be sampled.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub origin: &'a Origin,
    /// With its query.
    pub path: &'a str,
    pub token: Option<&'a str>,
    pub profile: &'a Arc<Profile>,
    /// Whether the values of the query are to be left out.
    pub is_redacted: bool,
}

/// A request of a sample.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// With its query.
    pub path: Box<str>,
    pub token: Option<Box<str>>,
    /// The profile that decided it.
    pub profile: Arc<Profile>,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Set {
    /// The hash of the origin, zero where there is none; and requests to pass over before one is
    /// taken.
    slots: [(AtomicU64, AtomicU64); SLOTS_OF_SET],
    reservoirs: Lock<[Option<Box<Reservoir>>; SLOTS_OF_SET]>,
}

/// A uniform sample of the requests of one origin: algorithm L (K.-H. Li, "Reservoir-sampling
/// algorithms of time complexity O(n(1 + log(N/n)))", 1994), which computes how many requests to pass
/// over.
#[derive(Debug)]
pub(super) struct Reservoir {
    origin: Origin,
    sampled: Vec<Sampled>,
    bytes: usize,
    /// There has been no room for one more.
    is_full: bool,
    /// The largest key of a sampled request, had each request a random one (Li's W).
    largest: f64,
    /// A client must not be able to foresee which requests are taken.
    random: Keyed,
    drawn: u64,
    /// The counter and `drawn` when another origin last wanted the slot.
    seen: Option<(u64, u64)>,
}

impl Samples {
    /// The origin has had a request that was allowed.
    #[inline]
    pub fn note(&self, candidate: Candidate<'_>) {
        let (set, tag) = self.set(candidate.origin);
        match set.slots.iter().find(|slot| slot.0.load(Relaxed) == tag) {
            // One thread alone finds zero; counts of others in between wrap around and are
            // overwritten.
            Some((_, left)) if left.fetch_sub(1, Relaxed) != 0 => {}
            _ => set.take(tag, candidate),
        }
    }

    /// The sample of `origin`.
    pub fn of(&self, origin: &Origin) -> Vec<Sampled> {
        let reservoirs = self.set(origin).0.reservoirs.lock();
        let found = reservoirs.iter().flatten().find(|it| it.origin == *origin);
        found.map(|reservoir| reservoir.sampled.clone()).unwrap_or_default()
    }

    /// Removes all.
    pub fn clear(&self) {
        for set in &self.sets {
            let mut reservoirs = set.reservoirs.lock();
            set.slots.iter().for_each(|(tag, _)| tag.store(0, Relaxed));
            *reservoirs = Default::default();
        }
    }

    fn set(&self, origin: &Origin) -> (&Set, u64) {
        let tag = self.random.hash_one(origin) | 1;
        (&self.sets[(tag >> 32) as usize % SETS], tag)
    }
}

impl Set {
    /// Takes the request, if its origin has a slot or gets one. Where another thread is at it, the
    /// next request will do as well.
    #[cold]
    fn take(&self, tag: u64, candidate: Candidate<'_>) {
        let Some(mut reservoirs) = self.reservoirs.try_lock() else { return };
        let own = reservoirs.iter().flatten().any(|it| it.origin == *candidate.origin);
        let mut may_have =
            |(reservoir, (_, left)): (&mut Option<Box<Reservoir>>, &(_, AtomicU64))| {
                let Some(it) = reservoir else { return !own };
                if own {
                    return it.origin == *candidate.origin;
                }
                let now = Some((left.load(Relaxed), it.drawn));
                std::mem::replace(&mut it.seen, now) == now
            };
        let Some(at) = reservoirs.iter_mut().zip(&self.slots).position(&mut may_have) else {
            return;
        };
        if !own {
            reservoirs[at] = None;
        }
        let reservoir =
            reservoirs[at].get_or_insert_with(|| Box::new(Reservoir::new(candidate.origin)));
        let (slot_tag, left) = &self.slots[at];
        left.store(reservoir.take(candidate), Relaxed);
        slot_tag.store(tag, Relaxed);
    }
}

impl Reservoir {
    pub(super) fn new(origin: &Origin) -> Self {
        Self {
            origin: origin.clone(),
            sampled: Vec::new(),
            bytes: 0,
            is_full: false,
            largest: 1.0,
            random: Keyed::new(),
            drawn: 0,
            seen: None,
        }
    }

    /// Adds a request, in place of a random one where it is full; how many to pass over before the
    /// next. One that is too long is passed over, too.
    pub(super) fn take(&mut self, candidate: Candidate<'_>) -> u64 {
        let Candidate { path, token, profile, is_redacted, .. } = candidate;
        let path: Box<str> = if is_redacted { without_values(path).into() } else { path.into() };
        if path.len() <= SAMPLE_PATH_BYTES_MAX
            && token.is_none_or(|token| token.len() <= TOKEN_BYTES_MAX)
        {
            if self.sampled.len() >= SAMPLE_PATHS_MAX {
                self.drop_one();
            }
            let (token, profile) = (token.map(Box::from), Arc::clone(profile));
            let sampled = Sampled { path, token, profile };
            self.bytes += sampled.bytes();
            self.sampled.push(sampled);
            // Any of them, the one that has just come included: else long paths would be rare.
            while self.bytes > SAMPLE_BYTES_MAX {
                self.drop_one();
                self.is_full = true;
            }
            self.is_full |= self.sampled.len() >= SAMPLE_PATHS_MAX;
        }
        let (one, other) = (self.fraction(), self.fraction());
        if !self.is_full {
            return 0;
        }
        // As many as there are now: where paths are long, there is room for fewer.
        self.largest *= (one.ln() / self.sampled.len().max(1) as f64).exp();
        // Beyond the bound a conversion would be no number of requests.
        (other.ln() / (-self.largest).ln_1p()).min(1e15) as u64
    }

    fn drop_one(&mut self) {
        let at = (self.fraction() * self.sampled.len() as f64) as usize;
        self.bytes -= self.sampled.swap_remove(at).bytes();
    }

    /// Random, above 0 and below 1.
    fn fraction(&mut self) -> f64 {
        self.drawn += 1;
        ((self.random.hash_one(self.drawn) >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }
}

impl Sampled {
    fn bytes(&self) -> usize {
        self.path.len() + self.token.as_ref().map_or(0, |token| token.len()) + ENTRY_BYTES
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
        let sets = (0..SETS).map(|_| Set::default()).collect();
        Self { random: RandomState::default(), sets }
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::types::origin::Scheme;

    fn origin(name: &str) -> Origin {
        Origin::from_authority(Scheme::Https, name).unwrap()
    }

    fn candidate<'a>(
        origin: &'a Origin,
        path: &'a str,
        profile: &'a Arc<Profile>,
    ) -> Candidate<'a> {
        Candidate { origin, path, token: Some("ExampleBot"), profile, is_redacted: false }
    }

    #[test]
    fn every_request_has_the_same_chance_whenever_it_came() {
        const REQUESTS: usize = 640;
        const ROUNDS: usize = 2000;
        let (profile, origin) = (Arc::default(), origin("a.example"));
        let paths: Vec<_> = (0..REQUESTS).map(|number| format!("/{number}")).collect();
        let mut counts: HashMap<String, usize> = HashMap::new();
        for _ in 0..ROUNDS {
            let (mut reservoir, mut left) = (Reservoir::new(&origin), 0);
            for path in &paths {
                match left {
                    0 => left = reservoir.take(candidate(&origin, path, &profile)),
                    _ => left -= 1,
                }
            }
            assert_eq!(reservoir.sampled.len(), SAMPLE_PATHS_MAX);
            for taken in reservoir.sampled {
                *counts.entry(taken.path.into()).or_default() += 1;
            }
        }
        // Each is taken with the probability 1/10, so 200 times with a deviation of 13.4: no tenth of
        // them strays by four deviations of its mean, no single one by seven.
        let count = |path: &String| counts.get(path).copied().unwrap_or_default();
        for path in &paths {
            assert!((106..=294).contains(&count(path)), "{path}: {}", count(path));
        }
        for tenth in paths.chunks(64) {
            let sum: usize = tenth.iter().map(count).sum();
            assert!((12_800 - 429..=12_800 + 429).contains(&sum), "{}: {sum}", tenth[0]);
        }
    }

    proptest! {
        #[test]
        fn a_sample_is_of_what_was_offered_and_keeps_its_bounds(
            offers in prop::collection::vec((1..1100_usize, 0..80_usize), 1..400)
        ) {
            let (profile, origin) = (Arc::default(), origin("a.example"));
            let (mut reservoir, mut model) = (Reservoir::new(&origin), HashMap::new());
            for (number, (length, agent)) in offers.into_iter().enumerate() {
                let path = format!("/{number}/{}", "x".repeat(length));
                let token = (agent > 0).then(|| "b".repeat(agent));
                let token = token.as_deref();
                reservoir.take(Candidate { token, ..candidate(&origin, &path, &profile) });
                model.insert(path.clone(), token.map(Box::from));
                prop_assert!(reservoir.sampled.len() <= SAMPLE_PATHS_MAX);
                prop_assert!(reservoir.bytes <= SAMPLE_BYTES_MAX);
            }
            let bytes: usize = reservoir.sampled.iter().map(Sampled::bytes).sum();
            prop_assert_eq!(bytes, reservoir.bytes);
            for taken in reservoir.sampled {
                prop_assert_eq!(model.remove(&*taken.path), Some(taken.token));
                prop_assert!(taken.path.len() <= SAMPLE_PATH_BYTES_MAX);
            }
        }
    }

    #[test]
    fn an_origin_in_use_stays_and_one_that_is_not_goes() {
        let (samples, profile, used) = (Samples::default(), Arc::default(), origin("used.example"));
        for number in 0..SAMPLE_ORIGINS_MAX * 8 {
            samples.note(candidate(&used, "/page", &profile));
            samples.note(candidate(&origin(&format!("once-{number}.example")), "/", &profile));
        }
        assert_eq!(samples.of(&used).len(), SAMPLE_PATHS_MAX);
        assert!(samples.of(&origin("once-0.example")).is_empty());
    }

    #[test]
    fn the_samples_take_no_more_memory_than_is_set_aside() {
        let fullest = SAMPLE_BYTES_MAX + size_of::<Reservoir>() + size_of::<Set>() + 512;
        assert!(SAMPLE_ORIGINS_MAX * fullest <= 32 << 20);
        assert!(size_of::<Sampled>() + 2 * 16 <= ENTRY_BYTES, "with what the allocator adds");
    }

    #[test]
    fn values_of_queries_are_left_out_where_the_setting_says_so() {
        for (path, expected) in [
            ("/a", "/a"),
            ("/a?", "/a?"),
            ("/a?secret", "/a?"),
            ("/a?q=secret&page=2&x", "/a?q=&page=&"),
            ("/a?q=b=c?d", "/a?q="),
        ] {
            assert_eq!(without_values(path), expected);
        }
        let (samples, profile, origin) = (Samples::default(), Arc::default(), origin("a.example"));
        let of =
            |path, is_redacted| Candidate { is_redacted, ..candidate(&origin, path, &profile) };
        samples.note(of("/a?q=secret", true));
        samples.note(of("/a?q=open", false));
        let paths = || samples.of(&origin).into_iter().map(|it| it.path).collect::<Vec<_>>();
        assert_eq!(paths(), ["/a?q=", "/a?q=open"].map(Box::<str>::from));
        samples.clear();
        assert!(paths().is_empty());
    }
}
