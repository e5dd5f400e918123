//! The states of an entry for further profiles, derived from the stored facts.

use std::sync::Arc;

use super::agents::AgentAnswers;
use super::entry::Entry;
use super::states::{Read, States, apply, find};
use crate::audit::limits::PROFILES_PER_ORIGIN_MAX;
use crate::policy::access::CompletedFetch;
use crate::policy::profile::Profile;
use crate::policy::state::{RobotsState, Unreachable};

impl Entry {
    /// The entry with one more profile, whose states are derived from the stored facts.
    pub(super) fn with_profile(&self, profile: &Arc<Profile>, jitter: f64, read: Read<'_>) -> Self {
        let mut entry = self.clone();
        let derive = |states: &States, failures: &[&CompletedFetch]| {
            let alike = |(state, other): &'_ (Arc<RobotsState>, Arc<Profile>)| {
                state.outage().filter(|_| other.meanings == profile.meanings).cloned()
            };
            let outage = states.iter().find_map(alike);
            (
                Arc::new(self.derive(failures, profile, outage.as_ref(), jitter, read)),
                Arc::clone(profile),
            )
        };
        if find(&entry.states, profile).is_none() {
            if entry.states.len() >= PROFILES_PER_ORIGIN_MAX {
                entry.drop_first_profile();
            }
            entry.states.push(derive(&self.states, &self.failures()));
        }
        let is_complete = |agents: &Arc<AgentAnswers>| {
            agents.states().all(|states| find(states, profile).is_some())
        };
        if let Some(agents) = entry.agents.as_mut().filter(|agents| !is_complete(agents)) {
            let agents = Arc::make_mut(agents);
            for answer in agents.answers.iter_mut().filter(|it| find(&it.states, profile).is_none())
            {
                let state = derive(&answer.states, &self.failures_of(answer));
                answer.states.push(state);
            }
            let others = agents.others.as_mut().filter(|states| find(states, profile).is_none());
            // Stricter than derived states: these agents have to fetch.
            others
                .into_iter()
                .for_each(|it| it.push((Arc::new(RobotsState::Unknown), Arc::clone(profile))));
        }
        entry
    }

    /// Removes the profile from every list: an agent's states rest on no copy but the shared one.
    fn drop_first_profile(&mut self) {
        let (_, gone) = self.states.remove(0);
        if let Some(agents) = self.agents.as_mut().map(Arc::make_mut) {
            agents.states_mut().for_each(|states| states.retain(|(_, profile)| *profile != gone));
        }
    }

    /// The state that the facts result in for `profile`: the last file, then the `failures`. An
    /// `outage` observed for a profile of equal meanings continues with the last of them.
    pub(super) fn derive(
        &self,
        failures: &[&CompletedFetch],
        profile: &Profile,
        outage: Option<&Unreachable>,
        jitter: f64,
        read: Read<'_>,
    ) -> RobotsState {
        let apply = |state, fetched: &CompletedFetch| {
            apply(&state, profile, fetched, jitter, self.site_up, read)
        };
        let (last, earlier) = match failures.split_last() {
            Some((last, earlier)) => (Some(*last), earlier),
            None => (None, failures),
        };
        let state =
            self.good.iter().chain(earlier.iter().copied()).fold(RobotsState::Unknown, apply);
        let state = match outage {
            Some(outage) => {
                RobotsState::Unreachable(outage.before_last_failure(state.copy().cloned()))
            }
            None => state,
        };
        last.into_iter().fold(state, apply)
    }

    /// Whether every agent has a state for `profile`.
    pub(super) fn has_state_for(&self, profile: &Arc<Profile>) -> bool {
        let agents = self.agents.iter().flat_map(|agents| agents.states());
        agents.chain([&self.states]).all(|states| find(states, profile).is_some())
    }
}
