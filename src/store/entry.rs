//! What is known of one origin: the last file, the last failure, the resulting state for each
//! profile, and responses to single agents. Immutable: each change makes a new entry, so readers
//! need no lock.

use std::sync::Arc;

use super::agents::{AgentAnswer, AgentAnswers};
use super::entry_view::View;
use super::states::{Read, States, apply, find};
use crate::engine::LeaseToken;
use crate::policy::access::{AccessResult, CompletedFetch, Snapshot};
use crate::policy::profile::Profile;
use crate::policy::state::RobotsState;
use crate::store::fetch::{FetchIdentity, Validators};
use crate::types::timestamp::Timestamp;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The last fetch that returned a file, updated by revalidations; kept while any state has a
    /// copy.
    pub(super) good: Option<CompletedFetch>,
    /// The last fetch without a file, if it is newer. Holds for every agent, like `good` and
    /// `states`.
    pub(super) failed: Option<Arc<CompletedFetch>>,
    pub(super) states: States,
    pub(super) site_up: bool,
    /// Responses that hold for one agent only, until a fetch settles the file itself.
    pub(super) agents: Option<Arc<AgentAnswers>>,
    /// The token under which it, or what it was made of, is published at the engine.
    pub(super) token: LeaseToken,
}

impl Entry {
    /// The entry after `fetched`, which `identity` requested: one fetch, applied to the state of
    /// every profile and of every agent that it concerns.
    pub(super) fn after(
        previous: Option<&Self>,
        profile: &Arc<Profile>,
        identity: &FetchIdentity,
        fetched: CompletedFetch,
        jitter: f64,
        read: Read<'_>,
    ) -> Self {
        let unknown = Self {
            good: None,
            failed: None,
            states: Vec::new(),
            site_up: true,
            agents: None,
            token: LeaseToken::default(),
        };
        let mut entry = previous.unwrap_or(&unknown).with_profile(profile, jitter, read);
        let site_up = entry.site_up;
        let apply = |states: &mut States| {
            for (state, profile) in states {
                *state = Arc::new(apply(state, profile, &fetched, jitter, site_up, read));
            }
        };
        match entry.scope(&fetched.result) {
            Scope::File => {
                apply(&mut entry.states);
                entry.agents = None;
                entry.remember(fetched);
            }
            Scope::Site => {
                apply(&mut entry.states);
                if let Some(agents) = entry.agents.as_mut().map(Arc::make_mut) {
                    agents.states_mut().for_each(apply);
                    agents.answers.iter_mut().for_each(|answer| answer.is_last = false);
                }
                entry.remember(fetched);
            }
            Scope::Agent => {
                let mut agents = entry.agents.take().map(Arc::unwrap_or_clone).unwrap_or_default();
                let known = agents.take(identity).map(|answer| answer.states);
                let mut states = known.unwrap_or_else(|| entry.states.clone());
                apply(&mut states);
                let (identity, own) = (identity.clone(), Arc::new(fetched));
                agents.put(AgentAnswer { identity, own, is_last: true, states });
                entry.agents = Some(Arc::new(agents));
            }
        }
        entry
    }

    fn scope(&self, result: &AccessResult) -> Scope {
        match result {
            AccessResult::Successful { .. } => Scope::File,
            // Without a copy, a 304 confirms nothing (RFC 9110 §15.4.5).
            AccessResult::NotModified { .. } if self.good.is_some() => Scope::File,
            AccessResult::NotModified { .. } => Scope::Agent,
            AccessResult::Without(cause) if cause.says_there_is_none() => Scope::File,
            AccessResult::Without(cause) if cause.counts_for_all() => Scope::Site,
            AccessResult::Without(_) => Scope::Agent,
        }
    }

    /// When the last fetch ended.
    pub(super) fn tried_at(&self) -> Option<Timestamp> {
        let answers = self.agents.iter().flat_map(|agents| &agents.answers);
        let own = answers.map(|answer| answer.own.at);
        let of_all = [self.good.as_ref(), self.failed.as_deref()].into_iter().flatten();
        own.chain(of_all.map(|fetched| fetched.at)).max()
    }

    /// The fetches without a file since the last one with a file, as they concern every agent.
    pub(super) fn failures(&self) -> Vec<&CompletedFetch> {
        self.failed.iter().map(|failed| &**failed).collect()
    }

    /// The same for the agent of `answer`.
    pub(super) fn failures_of<'a>(&'a self, answer: &'a AgentAnswer) -> Vec<&'a CompletedFetch> {
        let later = self.failed.as_deref().filter(|_| !answer.is_last);
        std::iter::once(&*answer.own).chain(later).collect()
    }

    /// What holds for the agent with this identity, which is computed only if agents have got
    /// different responses.
    pub(super) fn view(&self, identity: impl FnOnce() -> FetchIdentity) -> View<'_> {
        let for_all = View {
            states: &self.states,
            failed: self.failed.as_ref(),
            for_all_agents: true,
            only_agent: None,
        };
        let for_some = View { for_all_agents: false, ..for_all };
        let Some(agents) = &self.agents else { return for_all };
        match (agents.of(&identity()), &agents.others) {
            (Some(answer), _) if answer.is_last => View {
                states: &answer.states,
                failed: Some(&answer.own),
                for_all_agents: false,
                only_agent: Some(&answer.identity),
            },
            (Some(answer), _) => View { states: &answer.states, ..for_some },
            (None, Some(others)) => View { states: others, ..for_some },
            (None, None) => for_all,
        }
    }

    /// The entry with another site status; `None` if it is unchanged.
    pub(super) fn with_site(&self, is_up: bool) -> Option<Self> {
        (self.site_up != is_up).then(|| Self { site_up: is_up, ..self.clone() })
    }

    /// The state that holds for every agent without a response of its own.
    pub(super) fn state(
        &self,
        profile: &Arc<Profile>,
    ) -> Option<&(Arc<RobotsState>, Arc<Profile>)> {
        find(&self.states, profile)
    }

    /// The validators for a conditional request; `None` unless a 304 could be applied for every
    /// profile.
    pub(super) fn validators(&self, profile: &Arc<Profile>) -> Option<Validators> {
        let Some(CompletedFetch { result: AccessResult::Successful { snapshot, .. }, .. }) =
            &self.good
        else {
            return None;
        };
        let understands = |(state, profile): &(Arc<RobotsState>, Arc<Profile>)| {
            profile.conditional
                && state.copy().is_some_and(|copy| Arc::ptr_eq(&copy.snapshot, snapshot))
        };
        let has_any = snapshot.etag.is_some() || snapshot.last_modified.is_some();
        // A truncated file is fetched in full: a raised limit must see the rest.
        let may = has_any
            && !snapshot.cut
            && self.state(profile).is_some()
            && self.states.iter().all(understands);
        may.then(|| Validators {
            url: snapshot.url.clone(),
            etag: snapshot.etag.clone(),
            last_modified: snapshot.last_modified.clone(),
        })
    }

    pub(super) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        match &self.good.as_ref()?.result {
            AccessResult::Successful { snapshot, .. } => Some(snapshot),
            _ => None,
        }
    }

    fn remember(&mut self, fetched: CompletedFetch) {
        match (&fetched.result, self.snapshot().map(Arc::clone)) {
            (AccessResult::Successful { .. }, _) => {
                (self.good, self.failed) = (Some(fetched), None)
            }
            (AccessResult::NotModified { freshness }, Some(snapshot)) => {
                // The evidence of the file remains the fetch that returned it.
                let capture = snapshot.capture.clone();
                let result = AccessResult::Successful { snapshot, freshness: *freshness };
                (self.good, self.failed) =
                    (Some(CompletedFetch { result, capture, ..fetched }), None);
            }
            _ => self.failed = Some(Arc::new(fetched)),
        }
        // The site has removed the file, so no copy of it may remain.
        if self.states.iter().all(|(state, _)| state.copy().is_none()) {
            self.good = None;
        }
    }
}

/// Which agents a fetch concerns.
enum Scope {
    /// It settles the file: for every agent, and replaces responses to single agents.
    File,
    /// It concerns the site: for every agent, as another failure.
    Site,
    /// It concerns only the agent that requested it.
    Agent,
}
