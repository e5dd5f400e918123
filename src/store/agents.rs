//! Responses about an origin's robots.txt that hold for one agent only. Another agent may get
//! another response, so it has to fetch the file itself.

use std::sync::Arc;
use std::time::Duration;

use super::states::States;
use crate::policy::access::CompletedFetch;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;
use crate::types::timestamp::Timestamp;

/// The number of agents per origin whose responses are kept. Some origins refuse some agents; few
/// refuse more agents than one operator runs.
pub(super) const AGENTS_PER_ORIGIN_MAX: usize = 8;

#[derive(Clone, Debug, Default)]
pub(super) struct AgentAnswers {
    /// In the order of their responses, at most [`AGENTS_PER_ORIGIN_MAX`].
    pub(super) answers: Vec<AgentAnswer>,
    /// The states of agents that are not among `answers`, set once an agent has been evicted. Any
    /// of them may be the evicted one, so all begin as unknown and fetch for themselves.
    pub(super) others: Option<States>,
}

/// The last response to one agent.
#[derive(Clone, Debug)]
pub(super) struct AgentAnswer {
    pub(super) identity: FetchIdentity,
    /// The fetch that the agent caused.
    pub(super) own: Arc<CompletedFetch>,
    /// Whether it is the last attempt that concerns this agent; otherwise the last failure that
    /// holds for all agents is newer.
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

    /// Adds a response. At the limit it evicts the agent with the shortest observed outage and,
    /// among those, the oldest response: invented agent tokens do not displace an outage of weeks.
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

    /// The lists of states.
    pub(super) fn states(&self) -> impl Iterator<Item = &States> {
        self.answers.iter().map(|answer| &answer.states).chain(&self.others)
    }

    /// The lists of states, mutable.
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

/// Unknown states under the same profiles.
fn unknown(states: &States) -> States {
    states
        .iter()
        .map(|(_, profile)| (Arc::new(RobotsState::Unknown), Arc::clone(profile)))
        .collect()
}
