//! A question to the store, from the first look to an answer that is current.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use super::entry::Entry;
use super::flight::Waiting;
use super::{Known, Store, Undecided};
use crate::clients::Client;
use crate::policy::profile::Profile;
use crate::store::fetch::FetchIdentity;
use crate::types::origin::Origin;

/// Whoever asks what is known.
pub(super) struct Question<'a> {
    pub origin: &'a Origin,
    pub profile: &'a Arc<Profile>,
    /// The product token of the agent that is judged.
    pub agent: Option<&'a str>,
    pub client: &'a Client,
    /// As whom a fetch is made for it, once that is of interest.
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

/// How a question stands.
pub(super) enum Look {
    Current(Known),
    /// The origin is known, but not yet under this profile.
    Underived(Arc<Entry>),
    /// A fetch that this question has begun.
    Wait(Waiting),
    /// One that was under way.
    Join(Waiting),
}

impl Store {
    /// One look under the lock: an answer, or a fetch to wait for, begun if there is none. Who `has_waited`
    /// for another agent's fetch waits for no second one.
    pub(super) fn look(
        self: &Arc<Self>,
        question: &Question<'_>,
        has_waited: bool,
    ) -> Result<Look, Undecided> {
        let now = self.clock.wall();
        let mut shelf = self.shelf();
        // Where the origin has told agents apart, each asks for itself.
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
                    // Whether it can begin or not, the copy still serves.
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

    /// As whom a fetch for the question is made.
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
                        // It was given up: before this request came to wait for it, or for want of what
                        // another client had used up.
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
            // From the very entry that landed: a small cache may have evicted it by now.
            if let Some(known) = self.derive(&landing?, question).await {
                return Ok(known);
            }
            look = self.look(question, has_waited)?;
        }
    }

    /// What `entry` says under the profile, which may have to be worked out first.
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

/// From 0 to 1; it need only differ, so the hasher's random keys are enough.
pub(super) fn jitter() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(0) >> 48).unwrap_or(0))
        / f64::from(u16::MAX)
}
