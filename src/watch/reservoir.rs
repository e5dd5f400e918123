//! A uniform sample of the allowed requests of one origin, in bounded memory: algorithm L (K.-H.
//! Li, 1994), which computes in advance how many requests to skip until the next one is taken.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use std::sync::Arc;

use crate::policy::profile::Profile;

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
