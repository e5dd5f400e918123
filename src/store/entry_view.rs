//! What is known of an origin, as it concerns one agent.

use std::sync::Arc;

use super::states::{States, find};
use crate::policy::access::CompletedFetch;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;

/// The part of an entry that holds for one agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) states: &'a States,
    /// The last fetch, if it returned no file.
    pub(super) failed: Option<&'a Arc<CompletedFetch>>,
    /// Whether this also holds for every agent without a response of its own.
    pub(super) for_all_agents: bool,
    /// The agent, if the last fetch holds for it alone.
    pub(super) only_agent: Option<&'a FetchIdentity>,
}

impl<'a> View<'a> {
    /// One state per profile.
    pub(super) const fn states(&self) -> &'a States {
        self.states
    }

    pub(super) fn state(
        &self,
        profile: &Arc<Profile>,
    ) -> Option<&'a (Arc<RobotsState>, Arc<Profile>)> {
        find(self.states, profile)
    }
}
