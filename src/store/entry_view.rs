//! What is known of an origin, as it concerns one agent, and what is to be done to know it.

use std::sync::Arc;

use super::agents::AgentAnswer;
use super::answer::Answer;
use super::states::States;
use crate::policy::access::CompletedFetch;
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::FetchIdentity;

/// The part of an entry that holds for one agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    answer: &'a Answer,
    /// The agent, if this holds for it alone; else it is the common copy, or of the whole site.
    pub(super) only_agent: Option<&'a FetchIdentity>,
}

/// Whom a robots.txt is fetched as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// The agent that is judged.
    Agent,
    /// This program alone.
    Common,
}

/// What follows for a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course<'a> {
    /// This decides; near the end of its time it is fetched again.
    Known(View<'a>, Option<Whom>),
    /// The agent is the first that asks, unless another is about to.
    First,
    Fetch(Whom),
    /// The file was fetched for other agents a moment ago, and failed; nothing stands in.
    BackOff,
}

impl<'a> View<'a> {
    pub(super) const fn of_common(answer: &'a Answer) -> Self {
        Self { answer, only_agent: None }
    }

    pub(super) fn of_agent(agent: &'a AgentAnswer) -> Self {
        let AgentAnswer { identity, answer, .. } = agent;
        Self { answer, only_agent: (!answer.is_of_site()).then_some(identity) }
    }

    /// One state per profile.
    pub(super) const fn states(&self) -> &'a States {
        &self.answer.states
    }

    /// The last fetch, if it returned no file.
    pub(super) const fn failed(&self) -> Option<&'a Arc<CompletedFetch>> {
        self.answer.failed.as_ref()
    }

    pub(super) const fn answer(&self) -> &'a Answer {
        self.answer
    }

    pub(super) fn state(
        &self,
        profile: &Arc<Profile>,
    ) -> Option<&'a (Arc<RobotsState>, Arc<Profile>)> {
        self.answer.state(profile)
    }
}

impl Course<'_> {
    /// Whether a fetch as `whom` is in order.
    pub(super) fn is_fetch_as(&self, whom: Whom) -> bool {
        match self {
            Self::Fetch(own) => *own == whom,
            Self::First => true,
            Self::Known(..) | Self::BackOff => false,
        }
    }
}
