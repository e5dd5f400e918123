//! A lookup of one origin for one profile and agent: it takes what is current in memory, or else
//! starts or joins a fetch and waits for its entry.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::agents::Asker;
use super::entry::{Course, Entry, Whom};
use super::fetch::{FetchIdentity, FetchRequest};
use super::fetch_coordinator::StoreCore;
use super::fetch_task::{FetchOrder, PendingFetch};
use super::origin_robots::{OriginRobots, Undecided};
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::types::origin::Origin;

/// How long an agent waits for the common copy before it is fetched for: about four handshakes to
/// the other side of the world, and a lost segment.
const COMMON_WAIT_MAX: Duration = Duration::from_secs(2);

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
    /// A fetch to wait for, and as whom.
    Fetching(PendingFetch, Whom),
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

    /// One attempt, under the lock of the entries. `known`: an entry that the memory may have had no
    /// room for.
    pub(super) fn attempt(&self, known: Option<Arc<Entry>>) -> Result<Attempt, Undecided> {
        let now = self.core.clock.wall();
        let mut entries = self.core.entries.lock();
        let entry = entries.memory.get(self.origin).or(known.as_ref());
        let Some(entry) = entry else {
            let whom = self.unless_others_fetch();
            let fetch = self.core.start_or_join(entries, self.order(whom), None)?;
            return Ok(Attempt::Fetching(fetch, whom));
        };
        if !entry.has_state_for(self.profile) {
            return Ok(Attempt::NotDerived(Arc::clone(entry)));
        }
        let asker = Asker::Token(&self.core.fetcher, self.agent);
        let whom = match entry.course(asker, self.profile, now, || self.client.key()) {
            Course::Known(view, refresh) => {
                let robots = OriginRobots::if_current(&view, self.profile, now);
                let robots = robots.ok_or(Undecided::Aborted)?;
                // One agent at a time: the first to refresh it is the first of its next life.
                let may =
                    |whom: &Whom| *whom == Whom::Common || self.unless_others_fetch() == *whom;
                if let Some(whom) = refresh.filter(may) {
                    let entry = Arc::clone(entry);
                    self.core.refresh(entries, self.order(whom), entry);
                }
                return Ok(Attempt::Current(robots));
            }
            Course::First => self.unless_others_fetch(),
            Course::Fetch(whom) => whom,
            Course::BackOff => return Err(Undecided::BackOff),
        };
        let previous = Some(Arc::clone(entry));
        let fetch = self.core.start_or_join(entries, self.order(whom), previous)?;
        Ok(Attempt::Fetching(fetch, whom))
    }

    /// Waits for a fetch. One of the common copy is not waited for long: an origin that holds that
    /// up would hold up every agent.
    async fn fetched(
        &self,
        (fetch, whom): (PendingFetch, Whom),
        is_first: bool,
    ) -> Result<Option<Arc<Entry>>, Undecided> {
        let is_own = whom == Whom::Agent || *self.identity() == self.core.identity(None);
        let fetched = fetch.entry(is_first);
        if is_own {
            return fetched.await;
        }
        if let Ok(fetched) = tokio::time::timeout(COMMON_WAIT_MAX, fetched).await {
            return fetched;
        }
        let own = {
            let mut entries = self.core.entries.lock();
            let previous = entries.memory.get(self.origin).cloned();
            self.core.start_or_join(entries, self.order(Whom::Agent), previous)?
        };
        own.entry(false).await
    }

    /// The first agent that asks fetches for itself. Where another is about to, it is the second.
    fn unless_others_fetch(&self) -> Whom {
        let is_first = !self.core.flights.has_other(self.origin, self.identity());
        if is_first { Whom::Agent } else { Whom::Common }
    }

    /// Goes on from the first `attempt` until there is a result.
    pub(super) async fn wait(&self, mut attempt: Attempt) -> Result<OriginRobots, Undecided> {
        let mut has_waited = false;
        loop {
            let entry = match attempt {
                Attempt::Current(robots) => return Ok(robots),
                Attempt::NotDerived(entry) => Some(entry),
                Attempt::Fetching(fetch, whom) => {
                    let is_first = !std::mem::replace(&mut has_waited, true);
                    self.fetched((fetch, whom), is_first).await?
                }
            };
            // Not by way of the memory: if that is small, it may have evicted the entry already.
            let entry = entry.map(|entry| self.with_profile(&entry));
            if let Some(robots) = entry.as_ref().and_then(|entry| self.in_entry(entry)) {
                return Ok(robots);
            }
            attempt = self.attempt(entry)?;
        }
    }

    /// What `entry` says for the profile and the agent, if that is current.
    pub(super) fn derive(&self, entry: &Arc<Entry>) -> Option<OriginRobots> {
        self.in_entry(&self.with_profile(entry))
    }

    /// The entry with a state for the profile. One that it does not have is derived, and kept.
    fn with_profile(&self, entry: &Arc<Entry>) -> Arc<Entry> {
        let entries = &self.core.entries;
        let (derived, is_new) = entries.builder.derive_for(self.profile, Arc::clone(entry));
        if is_new {
            entries.replace(self.origin, entry, &derived);
        }
        derived
    }

    fn in_entry(&self, entry: &Entry) -> Option<OriginRobots> {
        let now = self.core.clock.wall();
        let asker = Asker::Token(&self.core.fetcher, self.agent);
        match entry.course(asker, self.profile, now, || self.client.key()) {
            Course::Known(view, _) => OriginRobots::if_current(&view, self.profile, now),
            _ => None,
        }
    }

    /// The fetch as `whom` for the lookup.
    fn order(&self, whom: Whom) -> FetchOrder {
        let agent = self.identity().clone();
        let (mut request, profile) = (self.fetch_request(), Arc::clone(self.profile));
        if whom == Whom::Common {
            request.identity = self.core.identity(None);
        }
        FetchOrder { request, agent, profile }
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
            progress: Arc::default(),
        }
    }
}
