//! A question to the store, from the first look to an answer that is current.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::entry::Entry;
use super::flight::Waiting;
use super::{Known, Store, Undecided};
use crate::clients::Client;
use crate::origin::Origin;
use crate::policy::profile::Profile;

/// Whoever asks what is known.
pub(super) struct Question<'a> {
    pub origin: &'a Origin,
    pub profile: &'a Arc<Profile>,
    /// The product token of the agent that is judged.
    pub agent: Option<&'a str>,
    pub client: &'a Client,
}

/// How a question stands.
pub(super) enum Look {
    Current(Known),
    /// The origin is known, but not yet under this profile.
    Underived(Arc<Entry>),
    Wait(Waiting),
}

impl Store {
    /// One look under the lock: an answer, or a fetch to wait for, begun if there is none.
    pub(super) fn look(self: &Arc<Self>, question: &Question<'_>) -> Result<Look, Undecided> {
        let now = self.clock.wall();
        let mut shelf = self.shelf();
        let entry = shelf.cache.get(question.origin);
        if let Some(entry) = entry {
            let Some(held) = entry.state(question.profile) else {
                return Ok(Look::Underived(Arc::clone(entry)));
            };
            if let Some(known) = Known::if_current(held, entry, now) {
                if known.state().wants_refresh(now)
                    && !shelf.flights.contains_key(question.origin)
                    && self.fetches.has_place(&question.client.key())
                {
                    // Whether it can begin or not, the copy still serves.
                    let _ = self.begin(shelf, question);
                }
                return Ok(Look::Current(known));
            }
        }
        match shelf.flights.get(question.origin) {
            Some(landed) => Ok(Look::Wait(landed.join(&question.client.key()))),
            None => self.begin(shelf, question).map(Look::Wait),
        }
    }

    /// Waits until something current is known.
    pub(super) async fn wait(
        self: &Arc<Self>,
        mut look: Look,
        question: &Question<'_>,
    ) -> Result<Known, Undecided> {
        loop {
            let entry = match look {
                Look::Current(known) => return Ok(known),
                Look::Underived(entry) => entry,
                Look::Wait(waiting) => waiting.entry().await?,
            };
            // From the very entry that landed: a small cache may have evicted it by now.
            if let Some(known) = self.derive(&entry, question).await {
                return Ok(known);
            }
            look = self.look(question)?;
        }
    }

    /// What `entry` says under the profile, which may have to be worked out first.
    pub(super) async fn derive(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        question: &Question<'_>,
    ) -> Option<Known> {
        let now = self.clock.wall();
        let derived = match entry.state(question.profile) {
            Some(_) => None,
            None => Some(Arc::new(entry.with_profile(question.profile, jitter(), &|snapshot, dialect| {
                self.parsed.read(snapshot, dialect)
            }))),
        };
        if let Some(derived) = &derived {
            let _turn = self.make_room(derived).await;
            if self.shelf().cache.replace(question.origin, entry, Arc::clone(derived)) {
                self.keep(question.origin, derived);
            }
        }
        let entry = derived.as_ref().unwrap_or(entry);
        Known::if_current(entry.state(question.profile)?, entry, now)
    }
}

/// From 0 to 1; it need only differ, so the hasher's random keys are enough.
pub(super) fn jitter() -> f64 {
    f64::from(u16::try_from(RandomState::new().hash_one(0) >> 48).unwrap_or(0)) / f64::from(u16::MAX)
}
