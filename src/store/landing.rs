//! Reports each landed fetch to a follower, which watches how files change.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::entry::Entry;
use super::states::States;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::types::client_key::ClientKey;
use crate::types::origin::Origin;
use crate::types::timestamp::Timestamp;

/// A fetch that ended with a finding.
#[derive(Clone, Debug)]
pub struct Landing {
    pub origin: Origin,
    /// The identity of the fetch. The states are those of this agent.
    pub identity: FetchIdentity,
    /// The client whose request caused it.
    pub client: ClientKey,
    /// The profile of that request.
    pub profile: Arc<Profile>,
    /// When it ended.
    pub at: Timestamp,
    pub steps: Vec<Step>,
    /// The last fetch before it, if that returned no file.
    pub failed_before: Option<Arc<Fetched>>,
    /// This fetch, if it returned no file.
    pub failed: Option<Arc<Fetched>>,
}

/// How it changed the state under one profile.
#[derive(Clone, Debug)]
pub struct Step {
    pub profile: Arc<Profile>,
    /// `None` if the origin was unknown.
    pub before: Option<Arc<RobotsState>>,
    pub after: Arc<RobotsState>,
}

/// Receives landed fetches.
pub trait Follower: Send + Sync + fmt::Debug {
    /// Called by the fetch's task once its result is in effect. Must not block.
    fn landed(&self, landing: Landing);
}

/// A landing without the new entry.
pub(super) struct Before {
    pub identity: FetchIdentity,
    pub client: ClientKey,
    pub profile: Arc<Profile>,
    pub at: Timestamp,
    pub entry: Option<Arc<Entry>>,
}

/// The follower, once it is set.
#[derive(Debug, Default)]
pub(super) struct FollowerSlot(OnceLock<Arc<dyn Follower>>);

impl FollowerSlot {
    /// Sets the follower, unless there is one.
    pub(super) fn set(&self, follower: Arc<dyn Follower>) {
        let _ = self.0.set(follower);
    }

    /// Reports the landing that made `after`.
    pub(super) fn report(&self, origin: &Origin, before: Before, after: &Entry) {
        let Some(follower) = self.0.get() else { return };
        let Before { identity, client, profile, at, entry } = before;
        let of = |entry: &Entry| -> (States, Option<Arc<Fetched>>) {
            let view = entry.view(|| identity.clone());
            (view.states().clone(), view.failed.cloned())
        };
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
