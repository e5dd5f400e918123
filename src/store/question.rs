//! A lookup, from the first attempt to a current result.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use super::entry::Entry;
use super::flight::Waiting;
use super::{Known, Store, Undecided};
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::store::fetch::FetchIdentity;
use crate::types::origin::Origin;

/// The parameters of a lookup.
pub(super) struct Question<'a> {
    pub origin: &'a Origin,
    pub profile: &'a Arc<Profile>,
    /// The product token of the agent that is judged.
    pub agent: Option<&'a str>,
    pub client: &'a Client,
    /// The identity of a fetch for this lookup, computed when it is needed.
    identity: OnceLock<FetchIdentity>,
}

impl<'a> Question<'a> {
    pub(super) const fn new(
        origin: &'a Origin,
        profile: &'a Arc<Profile>,
        agent: Option<&'a str>,
        client: &'a Client,
    ) -> Self {
        Self { origin, profile, agent, client, identity: OnceLock::new() }
    }
}

/// The outcome of one attempt.
pub(super) enum Look {
    Current(Known),
    /// The origin is known, but not yet under this profile.
    Underived(Arc<Entry>),
    /// A fetch that this lookup has started.
    Wait(Waiting),
    /// A fetch that was in flight.
    Join(Waiting),
}

impl Store {
    /// One attempt under the lock: a result, or a fetch to wait for, which is started if there is
    /// none. A lookup that `has_waited` for another agent's fetch does not wait for a second one.
    pub(super) fn look(
        self: &Arc<Self>,
        question: &Question<'_>,
        has_waited: bool,
    ) -> Result<Look, Undecided> {
        let now = self.clock.wall();
        let mut shelf = self.shelf();
        // If the origin has told agents apart, each agent fetches for itself.
        let mut may_share = !has_waited;
        if let Some(entry) = shelf.cache.get(question.origin) {
            if !entry.is_under(question.profile) {
                return Ok(Look::Underived(Arc::clone(entry)));
            }
            let view = entry.view(|| self.identity(question).clone());
            let held = view.state(question.profile);
            if let Some(known) = held.and_then(|held| Known::if_current(held, &view, now)) {
                let may_share = view.is_shared;
                if known.state().wants_refresh(now)
                    && shelf
                        .flights
                        .find(question.origin, self.identity(question), may_share)
                        .is_none()
                    && self.fetches.has_place(&question.client.key())
                {
                    // Not starting is fine: the copy is still current.
                    let _ = self.begin(shelf, question, may_share);
                }
                return Ok(Look::Current(known));
            }
            may_share &= entry.agents.is_none();
        }
        match shelf.flights.find(question.origin, self.identity(question), may_share) {
            Some(landed) => Ok(Look::Join(landed.join(&question.client.key()))),
            None => self.begin(shelf, question, may_share).map(Look::Wait),
        }
    }

    /// The identity of a fetch for the lookup.
    pub(super) fn identity<'a>(&self, question: &'a Question<'_>) -> &'a FetchIdentity {
        question.identity.get_or_init(|| self.terms.load().fetcher.identity(question.agent))
    }

    /// Waits until something current is known.
    pub(super) async fn wait(
        self: &Arc<Self>,
        mut look: Look,
        question: &Question<'_>,
    ) -> Result<Known, Undecided> {
        let mut has_waited = false;
        loop {
            let landing = match look {
                Look::Current(known) => return Ok(known),
                Look::Underived(entry) => Ok(entry),
                Look::Join(waiting) => {
                    let is_first = !std::mem::replace(&mut has_waited, true);
                    match waiting.entry().await {
                        // Cancelled before this request joined, or for a limit that another client
                        // exhausted.
                        Err(why) if why.is_of_others(is_first) => {
                            look = self.look(question, has_waited)?;
                            continue;
                        }
                        landing => landing,
                    }
                }
                Look::Wait(waiting) => {
                    has_waited = true;
                    waiting.entry().await
                }
            };
            // Derived from the entry that landed: a small cache may have evicted it already.
            if let Some(known) = self.derive(&landing?, question).await {
                return Ok(known);
            }
            look = self.look(question, has_waited)?;
        }
    }

    /// What `entry` results in under the profile; derives the state if it is missing.
    pub(super) async fn derive(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        question: &Question<'_>,
    ) -> Option<Known> {
        let now = self.clock.wall();
        let derived = (!entry.is_under(question.profile)).then(|| {
            let read = |snapshot: &_, dialect: &_| self.parsed.read(snapshot, dialect);
            Arc::new(entry.with_profile(question.profile, jitter(), &read))
        });
        if let Some(derived) = &derived {
            let _turn = self.make_room(derived).await;
            if self.shelf().cache.replace(question.origin, entry, Arc::clone(derived)) {
                self.keep(question.origin, derived);
            }
        }
        let view = derived.as_ref().unwrap_or(entry).view(|| self.identity(question).clone());
        Known::if_current(view.state(question.profile)?, &view, now)
    }
}

/// From 0 to 1. It only has to differ between calls, so the hasher's random keys suffice.
pub(super) fn jitter() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(0) >> 48).unwrap_or(0))
        / f64::from(u16::MAX)
}
