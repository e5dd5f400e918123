//! What single agents got for an origin's robots.txt. It holds for that agent alone: another may get
//! another file, so it goes by its own, or by the common copy.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::answer::{Answer, States};
use crate::policy::profile::Profile;
use crate::policy::state::{RobotsState, Unreachable};
use crate::store::fetch::{FetchIdentity, FetchRobots};
use crate::types::ClientKey;
use crate::types::timestamp::Timestamp;

/// The number of agents per origin whose answers are kept. Some origins tell some agents something
/// else; few tell more agents than one operator runs.
pub(super) const AGENTS_PER_ORIGIN_MAX: usize = 8;

/// How long after its answer was due an agent keeps its place, where others want one: RFC 9309 §2.4
/// lets a copy live for as long.
const PLACE_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The agents of one origin, in the order of their answers; at most [`AGENTS_PER_ORIGIN_MAX`].
#[derive(Clone, Debug, Default)]
pub(super) struct AgentAnswers(pub(super) Vec<AgentAnswer>);

/// What one agent got.
#[derive(Clone, Debug)]
pub(super) struct AgentAnswer {
    pub(super) identity: FetchIdentity,
    /// The client whose request caused the last fetch; unknown after a restart.
    pub(super) client: Option<ClientKey>,
    pub(super) answer: Answer,
}

/// The agent that looks something up.
#[derive(Clone, Copy)]
pub(super) enum Asker<'a> {
    /// By its product token: comparing it costs no allocation. Only the fetcher knows whether all
    /// fetches are made as one agent, by the settings of now.
    Token(&'a ArcSwap<Arc<dyn FetchRobots>>, Option<&'a str>),
    /// By the identity of a fetch for it.
    Identity { own: &'a FetchIdentity, is_common: bool },
}

impl Asker<'_> {
    /// Whether a fetch for it is made as this program alone.
    pub(super) fn is_common(&self) -> bool {
        match self {
            Self::Token(fetcher, agent) => fetcher.load().is_common(*agent),
            Self::Identity { is_common, .. } => *is_common,
        }
    }

    fn is(&self, identity: &FetchIdentity) -> bool {
        match self {
            Self::Token(_, agent) => identity.is_of_agent(*agent),
            Self::Identity { own, .. } => *own == identity,
        }
    }
}

impl AgentAnswers {
    pub(super) fn of(&self, asker: Asker<'_>) -> Option<&AgentAnswer> {
        self.0.iter().find(|answer| asker.is(&answer.identity))
    }

    pub(super) fn take(&mut self, identity: &FetchIdentity) -> Option<AgentAnswer> {
        let at = self.0.iter().position(|answer| answer.identity == *identity)?;
        Some(self.0.remove(at))
    }

    /// Adds an answer. At the limit it evicts the agent that is worth the least at `now`: invented
    /// tokens displace neither an outage of weeks nor one that is waited for.
    pub(super) fn put(&mut self, answer: AgentAnswer, now: Timestamp) {
        if self.0.len() >= AGENTS_PER_ORIGIN_MAX {
            let least = self.0.iter().enumerate().min_by_key(|(_, answer)| answer.worth(now));
            if let Some((at, _)) = least {
                self.0.remove(at);
            }
        }
        self.0.push(answer);
    }

    /// Whether an agent without a place may have one at `now`; `is_spare`: it has the common copy to
    /// go by, and takes no place that is in use.
    pub(super) fn has_place(&self, is_spare: bool, now: Timestamp) -> bool {
        let may_go = |it: &AgentAnswer| {
            it.answer.is_over(PLACE_KEPT, now) || !is_spare && !it.is_worth_keeping(now)
        };
        self.0.len() < AGENTS_PER_ORIGIN_MAX || self.0.iter().any(may_go)
    }

    /// Whether fetches for agents that `client` caused have failed, and none is due yet: all that a
    /// client causes at an origin share one back-off, whatever the agents.
    pub(super) fn backs_off(&self, client: &ClientKey, now: Timestamp) -> bool {
        let is_of = |it: &&AgentAnswer| it.client.as_ref().is_none_or(|own| own == client);
        let mut failing: Vec<_> =
            self.0.iter().filter(is_of).filter_map(AgentAnswer::outage).collect();
        failing.sort_by_key(|(outage, _)| outage.tried);
        let (mut agents, mut failures, mut until) = (0_u32, 0_u32, Timestamp::from_millis(0));
        for (outage, profile) in failing {
            let rule = &profile.outage;
            if now.since(outage.tried) > 2 * rule.retry_max || outage.tried > now {
                continue;
            }
            (agents, failures) = (agents + 1, failures.saturating_add(outage.failures));
            until = until.max(outage.next_try);
            if agents > 1 {
                let wait = rule.retry_min.saturating_mul(1 << failures.saturating_sub(1).min(31));
                until = until.max(outage.tried.plus(wait.min(rule.retry_max)));
            }
        }
        now < until
    }

    /// The lists of states.
    pub(super) fn states(&self) -> impl Iterator<Item = &States> {
        self.0.iter().map(|it| &it.answer.states)
    }
}

impl AgentAnswer {
    /// The outage that was observed for the longest time, and under which profile.
    fn outage(&self) -> Option<(&Unreachable, &Profile)> {
        let states = self.answer.states.iter();
        let outages = states.filter_map(|(state, profile)| Some((state.outage()?, &**profile)));
        outages.max_by_key(|(outage, _)| outage.tried.since(outage.since))
    }

    /// Whether its file is unreachable, and that was observed for some time, or is not due to be
    /// asked for.
    fn is_worth_keeping(&self, now: Timestamp) -> bool {
        self.outage().is_some_and(|(outage, _)| {
            outage.since < outage.tried || outage.tried <= now && now < outage.next_try
        })
    }

    fn worth(&self, now: Timestamp) -> (bool, Duration, Option<Timestamp>) {
        let observed = self.outage().map(|(outage, _)| outage.tried.since(outage.since));
        (self.is_worth_keeping(now), observed.unwrap_or_default(), self.answer.at())
    }
}

/// States that know the copies of `states`, but not as fresh, and nothing of failures.
pub(super) fn due(states: &States) -> States {
    let due = |state: &RobotsState| match state.copy() {
        Some(copy) => RobotsState::Successful {
            at: copy.confirmed_at,
            fresh_until: copy.confirmed_at,
            copy: copy.clone(),
        },
        None => RobotsState::Unknown,
    };
    states.iter().map(|(state, profile)| (Arc::new(due(state)), Arc::clone(profile))).collect()
}
