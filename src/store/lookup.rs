//! A lookup, from the first attempt to a current result.

use std::sync::{Arc, OnceLock};

use super::entry::Entry;
use super::fetch::{FetchIdentity, FetchRequest};
use super::fetch_task::Wait;
use super::fetches::Fetches;
use super::origin_robots::{OriginRobots, Undecided};
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// The parameters of a lookup.
pub(super) struct Lookup<'a> {
    pub fetches: &'a Arc<Fetches>,
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
    Current(OriginRobots),
    /// The origin is known, but not yet under this profile.
    Underived(Arc<Entry>),
    Wait(Wait),
}

impl<'a> Lookup<'a> {
    pub(super) const fn new(
        fetches: &'a Arc<Fetches>,
        origin: &'a Origin,
        profile: &'a Arc<Profile>,
        agent: Option<&'a str>,
        client: &'a Client,
    ) -> Self {
        Self { fetches, origin, profile, agent, client, identity: OnceLock::new() }
    }

    /// One attempt under the lock: a result, or a fetch to wait for, which is started if there is
    /// none. A lookup that `has_waited` for another agent's fetch does not wait for a second one.
    pub(super) fn attempt(&self, has_waited: bool) -> Result<Attempt, Undecided> {
        let now = self.fetches.clock.wall();
        let mut entries = self.fetches.entries.lock();
        // If the origin has answered agents differently, each agent fetches for itself.
        let mut may_share = !has_waited;
        let entry = entries.memory.get(self.origin);
        if let Some(entry) = entry {
            if !entry.is_under(self.profile) {
                return Ok(Attempt::Underived(Arc::clone(entry)));
            }
            let view = entry.view(|| self.identity().clone());
            let held = view.state(self.profile);
            if let Some(known) = held.and_then(|held| OriginRobots::if_current(held, &view, now)) {
                if known.state().wants_refresh(now) {
                    let (is_shared, entry) = (view.is_shared, Arc::clone(entry));
                    self.fetches.refresh(
                        entries,
                        self.fetch_request(),
                        is_shared,
                        self.profile,
                        entry,
                    );
                }
                return Ok(Attempt::Current(known));
            }
            may_share &= entry.agents.is_none();
        }
        let known = entry.cloned();
        let wait =
            self.fetches.start(entries, self.fetch_request(), may_share, self.profile, known);
        wait.map(Attempt::Wait)
    }

    /// Waits until something current is known.
    pub(super) async fn wait(&self, mut attempt: Attempt) -> Result<OriginRobots, Undecided> {
        let mut has_waited = false;
        loop {
            let (waiting, has_joined) = match attempt {
                Attempt::Current(known) => return Ok(known),
                Attempt::Underived(entry) => {
                    if let Some(known) = self.derive(&entry).await {
                        return Ok(known);
                    }
                    attempt = self.attempt(has_waited)?;
                    continue;
                }
                Attempt::Wait(Wait::Joined(waiting)) => (waiting, true),
                Attempt::Wait(Wait::Started(waiting)) => (waiting, false),
            };
            let is_first = !std::mem::replace(&mut has_waited, true);
            match waiting.outcome().await.unwrap_or(Err(Undecided::Aborted)) {
                // Derived from the entry of that fetch: a small cache may have evicted it already.
                Ok(entry) => {
                    if let Some(known) = self.derive(&entry).await {
                        return Ok(known);
                    }
                }
                // Cancelled before this request joined, or for a limit that another client
                // exhausted.
                Err(why) if has_joined && why.is_due_to_others(is_first) => {}
                Err(why) => return Err(why),
            }
            attempt = self.attempt(has_waited)?;
        }
    }

    /// What `entry` results in under the profile; derives the state if it is missing.
    pub(super) async fn derive(&self, entry: &Arc<Entry>) -> Option<OriginRobots> {
        let now = self.fetches.clock.wall();
        let entries = &self.fetches.entries;
        let (derived, is_new) = entries.builder.under(self.profile, Arc::clone(entry));
        if is_new {
            entries.replace(self.origin, entry, &derived);
        }
        let view = derived.view(|| self.identity().clone());
        OriginRobots::if_current(view.state(self.profile)?, &view, now)
    }

    /// The identity of a fetch for the lookup.
    fn identity(&self) -> &FetchIdentity {
        self.identity.get_or_init(|| self.fetches.identity(self.agent))
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
