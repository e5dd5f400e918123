//! What a fetch has made known, for who follows how files change.

use std::fmt;
use std::sync::Arc;

use super::Store;
use super::agents::States;
use super::entry::{Entry, View};
use crate::clients::Key;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// One fetch that has ended with a finding.
#[derive(Clone, Debug)]
pub struct Landing {
    pub origin: Origin,
    /// As whom the file was asked for. The states are those that this agent goes by.
    pub identity: FetchIdentity,
    /// Whose request caused it.
    pub client: Key,
    /// Under which that request was judged.
    pub profile: Arc<Profile>,
    /// When it ended.
    pub at: Timestamp,
    pub steps: Vec<Step>,
    /// The last attempt without a file before it.
    pub failed_before: Option<Arc<Fetched>>,
    /// This attempt, where it brought no file.
    pub failed: Option<Arc<Fetched>>,
}

/// What it did to the state under one profile.
#[derive(Clone, Debug)]
pub struct Step {
    pub profile: Arc<Profile>,
    /// Nothing where the origin was not known.
    pub before: Option<Arc<RobotsState>>,
    pub after: Arc<RobotsState>,
}

/// Follows what fetches make known.
pub trait Follower: Send + Sync + fmt::Debug {
    /// Called by the fetch's task once its finding is in effect: it must not wait for anything.
    fn landed(&self, landing: Landing);
}

/// What a landing is made of, but for what was learnt.
pub(super) struct Before {
    pub identity: FetchIdentity,
    pub client: Key,
    pub profile: Arc<Profile>,
    pub at: Timestamp,
    pub entry: Option<Arc<Entry>>,
}

impl Store {
    /// From now on `follower` is told of each fetch that ends with a finding. The first that asks for it is.
    pub fn follow(&self, follower: Arc<dyn Follower>) {
        let _ = self.follower.set(follower);
    }

    pub(super) fn tell_landing(&self, origin: &Origin, before: Before, after: &Entry) {
        let Some(follower) = self.follower.get() else { return };
        let Before { identity, client, profile, at, entry } = before;
        let of = |entry: &'_ Entry| entry.view(|| identity.clone()).into_states();
        let (before, failed_before) = entry.as_deref().map(of).unwrap_or_default();
        let (after, failed) = of(after);
        let find = |profile: &Arc<Profile>| before.iter().find(|(_, known)| known == profile);
        let steps = after.into_iter().map(|(after, profile)| Step {
            before: find(&profile).map(|(state, _)| Arc::clone(state)),
            profile,
            after,
        });
        let steps = steps.collect();
        let origin = origin.clone();
        follower.landed(Landing {
            origin,
            identity,
            client,
            profile,
            at,
            steps,
            failed_before,
            failed,
        });
    }
}

impl View<'_> {
    fn into_states(self) -> (States, Option<Arc<Fetched>>) {
        (self.states().clone(), self.failed.cloned())
    }
}
