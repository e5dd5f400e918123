//! The last robots.txt that each origin sent to each agent. Some origins have a file for each
//! agent: if the file of one were compared with the file of another, each fetch would look like a
//! change.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::audit::evidence::CaptureRecord;
use crate::policy::access::{Capture, CompletedFetch};
use crate::policy::profile::{Meaning, Profile};
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::store::{FetchEvent, StateChange};
use crate::types::origin::Origin;

/// Pairs of agent and origin whose last file is remembered, at 64 bytes and their names each.
const LAST_ANSWERS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not zero");

/// Bytes of files that are kept for agents that get a file of their own.
const LAST_ANSWERS_BYTES_MAX: usize = 16 << 20;

/// The compared part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// By its SHA-256.
    File([u8; 32]),
    NoFile,
}

/// The state that a fetch is to be compared with.
#[derive(Clone, Debug)]
pub(super) enum Compare {
    /// As the store has it.
    Stored,
    /// The file can be fetched again, and is the one that this agent had last.
    Returned,
    /// This agent's last state, if another agent got a different one since.
    Own(Arc<RobotsState>),
    Nothing,
}

/// By origin and agent.
pub(super) struct LastAnswers {
    last: LruCache<(Origin, FetchIdentity), Last>,
    /// Bytes of the states that are kept.
    bytes: usize,
}

struct Last {
    answer: Answer,
    /// Bytes kept for origins that have several files.
    state: Option<Arc<RobotsState>>,
}

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

impl LastAnswers {
    /// Chooses the state to compare `fetch` with, and remembers its answer. `change` is its change
    /// under its own profile.
    pub fn note(&mut self, fetch: &FetchEvent, change: &StateChange) -> Compare {
        let key = (fetch.origin.clone(), fetch.identity.clone());
        let answer = |state: &RobotsState| Answer::of(state, &change.profile);
        let Some(now) = answer(&change.after) else {
            // An outage is one for every agent, or it is kept of this agent alone.
            return if change.before.is_some() { Compare::Stored } else { Compare::Nothing };
        };
        let before = change.before.as_deref();
        let (stored, own) = (before.and_then(answer), self.last.get(&key));
        let compare = match (before, own) {
            // Forgotten or lost, or the first of all.
            (None, _) => Compare::Nothing,
            (Some(_), own) if stored.is_none() => match own {
                Some(own) if own.answer == now => Compare::Returned,
                _ => Compare::Stored,
            },
            (Some(_), Some(own)) if own.answer == now => Compare::Nothing,
            (Some(_), Some(own)) if Some(own.answer) == stored => Compare::Stored,
            (Some(_), Some(own)) => own.state.clone().map_or(Compare::Nothing, Compare::Own),
            // After a restart: the capture shows to which agent the store's answer was sent.
            (Some(_), None) if is_of_same_agent(fetch, change) => Compare::Stored,
            (Some(_), None) => Compare::Nothing,
        };
        let is_apart = stored.is_some_and(|stored| stored != now);
        self.put(key, now, is_apart.then(|| Arc::clone(&change.after)));
        compare
    }

    fn put(
        &mut self,
        key: (Origin, FetchIdentity),
        answer: Answer,
        state: Option<Arc<RobotsState>>,
    ) {
        if let Some(former) = self.last.pop(&key) {
            self.bytes -= former.bytes();
        }
        let mut last = Last { answer, state };
        if self.bytes + last.bytes() > LAST_ANSWERS_BYTES_MAX {
            last.state = None;
        }
        self.bytes += last.bytes();
        if let Some((_, gone)) = self.last.push(key, last) {
            self.bytes -= gone.bytes();
        }
    }
}

impl Last {
    fn bytes(&self) -> usize {
        self.state.as_deref().map_or(0, bytes)
    }
}

/// Bytes of the file in `state`, as it is and as it is read.
pub(super) fn bytes(state: &RobotsState) -> usize {
    state.copy().map_or(0, |copy| copy.snapshot.body.len() + copy.rules.weight())
}

/// Whether the store's answer was fetched as the same agent.
fn is_of_same_agent(fetch: &FetchEvent, change: &StateChange) -> bool {
    let asker = |state: &RobotsState, failed: &Option<Arc<CompletedFetch>>| {
        let failed = failed.as_ref().map(|failed| &failed.capture);
        asker(failed.or_else(|| Some(&state.copy()?.snapshot.capture))?)
    };
    let before = change.before.as_deref().and_then(|before| asker(before, &fetch.failed_before));
    before.is_some() && before == asker(&change.after, &fetch.failed)
}

/// The User-Agent of the fetch without the proxy's version and contact, which do not make another
/// agent.
fn asker(capture: &Capture) -> Option<String> {
    let capture: CaptureRecord = serde_json::from_slice(&capture.json).ok()?;
    let user_agent = capture.user_agent?;
    let own = user_agent.rfind("courtesy/").unwrap_or(user_agent.len());
    Some(user_agent[..own].to_owned())
}

impl Default for LastAnswers {
    fn default() -> Self {
        Self { last: LruCache::sparse(LAST_ANSWERS_MAX), bytes: 0 }
    }
}

impl fmt::Debug for LastAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastAnswers").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
