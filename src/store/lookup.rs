//! A lookup of one origin for one profile and agent: it takes what is current in memory, or else
//! starts or joins a fetch and waits for its entry.

use std::sync::{Arc, OnceLock};

use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRequest};
use super::origin_robots::{OriginRobots, Undecided};
use super::pending_fetch::PendingFetch;
use super::store_core::StoreCore;
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// The parameters of a lookup.
pub(super) struct Lookup<'a> {
    pub core: &'a Arc<StoreCore>,
    pub origin: &'a Origin,
    pub profile: &'a Arc<Profile>,
    /// The product token of the agent that is judged.
    pub agent: Option<&'a str>,
    pub client: &'a Client,
    /// The identity of a fetch for this lookup, computed when it is needed.
    identity: OnceLock<FetchIdentity>,
}

/// The outcome of one attempt.
pub(super) enum Attempt {
    /// The result.
    Current(OriginRobots),
    /// The entry in memory, which has no state for the profile yet.
    NotDerived(Arc<Entry>),
    /// A fetch to wait for.
    Fetching(PendingFetch),
}

impl<'a> Lookup<'a> {
    pub(super) const fn new(
        core: &'a Arc<StoreCore>,
        origin: &'a Origin,
        profile: &'a Arc<Profile>,
        agent: Option<&'a str>,
        client: &'a Client,
    ) -> Self {
        Self { core, origin, profile, agent, client, identity: OnceLock::new() }
    }

    /// One attempt, under the lock of the entries. A lookup that `has_waited` for a fetch, and is
    /// still without a result, waits for no other agent's fetch again.
    pub(super) fn attempt(&self, has_waited: bool) -> Result<Attempt, Undecided> {
        let now = self.core.clock.wall();
        let mut entries = self.core.entries.lock();
        let mut for_all_agents = !has_waited;
        let entry = entries.memory.get(self.origin);
        if let Some(entry) = entry {
            if !entry.has_state_for(self.profile) {
                return Ok(Attempt::NotDerived(Arc::clone(entry)));
            }
            let view = entry.view(|| self.identity().clone());
            if let Some(robots) = OriginRobots::if_current(&view, self.profile, now) {
                if robots.state().needs_refresh(now) {
                    let (for_all_agents, entry) = (view.for_all_agents, Arc::clone(entry));
                    let request = self.fetch_request();
                    self.core.refresh(entries, request, for_all_agents, self.profile, entry);
                }
                return Ok(Attempt::Current(robots));
            }
            // Once an origin has given agents different responses, each agent fetches for itself.
            for_all_agents &= entry.agents.is_none();
        }
        let (request, previous) = (self.fetch_request(), entry.cloned());
        let fetch =
            self.core.start_or_join(entries, request, for_all_agents, self.profile, previous);
        fetch.map(Attempt::Fetching)
    }

    /// Goes on from the first `attempt` until there is a result.
    pub(super) async fn wait(&self, mut attempt: Attempt) -> Result<OriginRobots, Undecided> {
        let mut has_waited = false;
        loop {
            let entry = match attempt {
                Attempt::Current(robots) => return Ok(robots),
                Attempt::NotDerived(entry) => Some(entry),
                Attempt::Fetching(fetch) => {
                    let is_first = !std::mem::replace(&mut has_waited, true);
                    fetch.entry(is_first).await?
                }
            };
            // Not by way of the memory: if that is small, it may have evicted the entry already.
            if let Some(robots) = entry.and_then(|entry| self.derive(&entry)) {
                return Ok(robots);
            }
            attempt = self.attempt(has_waited)?;
        }
    }

    /// What `entry` says for the profile and the agent, if that is current. A state that it does
    /// not have for the profile is derived, and kept.
    pub(super) fn derive(&self, entry: &Arc<Entry>) -> Option<OriginRobots> {
        let now = self.core.clock.wall();
        let entries = &self.core.entries;
        let (derived, is_new) = entries.builder.derive_for(self.profile, Arc::clone(entry));
        if is_new {
            entries.replace(self.origin, entry, &derived);
        }
        let view = derived.view(|| self.identity().clone());
        OriginRobots::if_current(&view, self.profile, now)
    }

    /// The identity of a fetch for the lookup.
    fn identity(&self) -> &FetchIdentity {
        self.identity.get_or_init(|| self.core.identity(self.agent))
    }

    /// The parameters of a fetch for the lookup.
    fn fetch_request(&self) -> FetchRequest {
        FetchRequest {
            origin: self.origin.clone(),
            identity: self.identity().clone(),
            validators: None,
            redirects_max: self.profile.redirects_max,
            client: self.client.key(),
            loop_tokens: self.client.loop_tokens.clone(),
            progress: Arc::default(),
        }
    }
}
