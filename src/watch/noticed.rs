//! The changes that have had their notice. Several agents see the same change of a file, each by a
//! fetch of its own, and some origins have a file for each agent: what is compared is the file that
//! decides for an agent, before and after, and each change has one notice.

use std::fmt;
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::policy::profile::{Meaning, Profile};
use crate::policy::state::RobotsState;
use crate::store::{FetchEvent, StateChange};
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// Origins whose last changes are remembered.
const NOTICED_ORIGINS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not zero");

/// Changes of one origin that are remembered: those of a day, if each agent has a file of its own.
const NOTICED_MAX: usize = 9;

/// The compared part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// By its SHA-256.
    File([u8; 32]),
    NoFile,
}

/// By origin: what its file became, and when that was seen first.
pub(super) struct Noticed(LruCache<Origin, Vec<(Answer, Timestamp)>>);

impl Answer {
    /// None without a file: it is unreachable, or access to it is denied.
    pub fn of(state: &RobotsState, profile: &Profile) -> Option<Self> {
        match state {
            RobotsState::Successful { copy, .. } => Some(Self::File(copy.snapshot.sha256)),
            RobotsState::Unavailable { cause, .. } => {
                (profile.meaning(cause) == Meaning::Unavailable).then_some(Self::NoFile)
            }
            RobotsState::Unknown | RobotsState::Unreachable(_) => None,
        }
    }
}

impl Noticed {
    /// Whether the change that `fetch` shows under its own profile is to be compared: not if another
    /// agent's fetch has shown it since this agent's file was confirmed. It is remembered.
    pub fn is_new(&mut self, fetch: &FetchEvent, change: &StateChange) -> bool {
        let answer = |state: &RobotsState| Answer::of(state, &change.profile);
        let Some(before) = change.before.as_deref() else { return false };
        // An outage is one for every agent, or of this agent alone.
        let Some(after) = answer(&change.after) else { return true };
        if answer(before) == Some(after) {
            return true;
        }
        let since = before.tried_at();
        let known = self.0.get_or_insert_mut(fetch.origin.clone(), Vec::new);
        if known.iter().any(|(to, at)| *to == after && Some(*at) >= since) {
            return false;
        }
        if known.len() >= NOTICED_MAX {
            known.remove(0);
        }
        known.push((after, fetch.at));
        true
    }
}

impl Default for Noticed {
    fn default() -> Self {
        Self(LruCache::sparse(NOTICED_ORIGINS_MAX))
    }
}

impl fmt::Debug for Noticed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noticed").field("origins", &self.0.len()).finish_non_exhaustive()
    }
}
