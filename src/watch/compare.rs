//! Compares the states of a robots.txt before and after a fetch: the kind of the change, and the
//! agents that it concerns.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::noticed::Answer;
use super::sample::Sampled;
use crate::policy::change::{Change, Kind, change};
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::{FetchEvent, StateChange};

/// A fetch that has changed something, to be compared.
#[derive(Debug)]
pub(super) struct Pending {
    pub fetch: FetchEvent,
    /// The file is the one of before the outage.
    pub(super) has_returned: bool,
    pub held: Option<HeldBytes>,
}

/// Bytes of files that wait; given back when dropped.
#[derive(Debug)]
pub(super) struct HeldBytes {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

/// The result of the comparison.
#[derive(Debug)]
pub(super) struct Compared {
    pub kind: Kind,
    pub(super) touched: Vec<(Arc<Profile>, Change)>,
}

impl Pending {
    /// Nothing where all is as it was.
    pub fn new(fetch: FetchEvent) -> Option<Self> {
        let differs = |change: &StateChange| {
            let answer = |state| Answer::of(state, &change.profile);
            change.before.as_deref().is_some_and(|before| answer(before) != answer(&change.after))
        };
        if !fetch.changes.iter().any(differs) {
            return None;
        }
        let own = fetch.changes.iter().find(|change| change.profile == fetch.profile);
        let has_returned = own.is_some_and(|change| {
            let file = |state: &RobotsState| state.copy().map(|copy| copy.snapshot.sha256);
            let before = change.before.as_deref();
            let is_back = before.is_some_and(|it| Answer::of(it, &change.profile).is_none());
            is_back && before.and_then(file) == file(&change.after)
        });
        Some(Self { fetch, has_returned, held: None })
    }

    /// Bytes of the files.
    pub fn bytes(&self) -> usize {
        let both =
            |change: &StateChange| bytes(&change.after) + change.before.as_deref().map_or(0, bytes);
        self.fetch.changes.iter().map(both).max().unwrap_or_default()
    }

    /// The change for the agents of `sample` and the one of the fetch. None if both have the same
    /// text and the same meaning under every profile.
    pub fn compare(&self, sample: &[Sampled]) -> Option<Compared> {
        let own = &self.fetch.profile;
        let of = |states: &StateChange| {
            let mut seen: HashSet<_> = sample
                .iter()
                .filter(|sampled| sampled.profile == states.profile)
                .map(|sampled| sampled.token.as_deref())
                .collect();
            seen.extend(
                (states.profile == *own)
                    .then(|| self.fetch.identity.agent())
                    .filter(Option::is_some),
            );
            seen.remove(&None);
            let mut seen: Vec<_> = seen.into_iter().collect();
            seen.sort_unstable();
            let mut change =
                change(states.before.as_deref()?, &states.after, &states.profile, &seen)?;
            if self.has_returned && change.kind == Kind::Back {
                change.agents.clear();
            }
            Some((Arc::clone(&states.profile), change))
        };
        let touched: Vec<_> = self.fetch.changes.iter().filter_map(of).collect();
        let in_force = touched.iter().find(|(profile, _)| profile == own);
        let in_force = in_force.filter(|(_, change)| change.kind != Kind::Cosmetic);
        let other = || touched.iter().find(|(_, change)| change.kind != Kind::Cosmetic);
        let (_, first) = in_force.or_else(other).or(touched.first())?;
        Some(Compared { kind: first.kind, touched })
    }
}

/// Bytes of the file in `state`, as it is and as it is read.
fn bytes(state: &RobotsState) -> usize {
    state.copy().map_or(0, |copy| copy.snapshot.body.len() + copy.rules.weight())
}

impl HeldBytes {
    /// `bytes` more of at most `max`.
    pub fn of(all: &Arc<AtomicUsize>, bytes: usize, max: usize) -> Option<Self> {
        let sum = all.fetch_add(bytes, Relaxed) + bytes;
        let held = Self { bytes, all: Arc::clone(all) };
        (sum <= max).then_some(held)
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}
