//! Answers about an origin's robots.txt that count for one agent alone: what another agent is told, it can
//! only learn by asking for itself.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::types::timestamp::Timestamp;

/// Agents of which an origin's answers are kept at a time. Some origins refuse some agents; few refuse more
/// than a handful that one operator runs.
pub(super) const AGENTS_PER_ORIGIN_MAX: usize = 8;

/// A state for each profile.
pub(super) type States = Vec<(Arc<RobotsState>, Arc<Profile>)>;

#[derive(Clone, Debug, Default)]
pub(super) struct AgentAnswers {
    /// The last to answer is the last. No more than [`AGENTS_PER_ORIGIN_MAX`].
    pub(super) answers: Vec<AgentAnswer>,
    /// What the agents go by that have no place among `answers`, as soon as one has lost its place: it may be
    /// any of them, and may have been told anything. It begins as unknown, so each of them asks for itself.
    pub(super) others: Option<States>,
}

/// What one agent was told.
#[derive(Clone, Debug)]
pub(super) struct AgentAnswer {
    pub(super) identity: FetchIdentity,
    /// Its own last answer.
    pub(super) own: Arc<Fetched>,
    /// Whether nothing was learnt since: else the last failure that counts for all came later.
    pub(super) is_last: bool,
    pub(super) states: States,
}

impl AgentAnswers {
    pub(super) fn of(&self, identity: &FetchIdentity) -> Option<&AgentAnswer> {
        self.answers.iter().find(|answer| answer.identity == *identity)
    }

    pub(super) fn take(&mut self, identity: &FetchIdentity) -> Option<AgentAnswer> {
        let at = self.answers.iter().position(|answer| answer.identity == *identity)?;
        Some(self.answers.remove(at))
    }

    /// Where there is no place left, the one goes that has observed the shortest outage and, of these, that
    /// was answered first: made-up tokens do not take away what has been observed for weeks.
    pub(super) fn put(&mut self, answer: AgentAnswer) {
        if self.answers.len() >= AGENTS_PER_ORIGIN_MAX {
            let first = self.answers.iter().enumerate().min_by_key(|(_, answer)| answer.worth());
            if let Some((at, _)) = first {
                let gone = self.answers.remove(at);
                self.others.get_or_insert_with(|| unknown(&gone.states));
            }
        }
        self.answers.push(answer);
    }

    /// All lists of states there are.
    pub(super) fn states(&self) -> impl Iterator<Item = &States> {
        self.answers.iter().map(|answer| &answer.states).chain(&self.others)
    }

    /// The same, to be changed.
    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = &mut States> {
        self.answers.iter_mut().map(|answer| &mut answer.states).chain(&mut self.others)
    }
}

impl AgentAnswer {
    fn worth(&self) -> (Duration, Timestamp) {
        let outages = self.states.iter().filter_map(|(state, _)| state.outage());
        let observed = outages.map(|outage| outage.tried.since(outage.since)).max();
        (observed.unwrap_or_default(), self.own.at)
    }
}

/// Under the same profiles, nothing.
fn unknown(states: &States) -> States {
    states
        .iter()
        .map(|(_, profile)| (Arc::new(RobotsState::Unknown), Arc::clone(profile)))
        .collect()
}
