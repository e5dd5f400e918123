//! The answers of the store: what is known of an origin, or why nothing is.

use std::sync::{Arc, Weak};

use super::entry::View;
use crate::egress;
use crate::policy::access::Fetched;
use crate::policy::profile::Profile;
use crate::policy::state::{Policy, RobotsState, Standing};
use crate::store::fetch::FetchIdentity;
use crate::types::timestamp::Timestamp;

/// What is known of an origin under a profile. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Known {
    state: Arc<RobotsState>,
    profile: Arc<Profile>,
    failed: Option<Arc<Fetched>>,
    asked_as: Option<FetchIdentity>,
    /// When the state was current.
    at: Timestamp,
}

/// By what something [`Known`] is known again, without keeping it.
#[derive(Clone, Debug)]
pub struct Mark {
    state: Weak<RobotsState>,
    failed: Option<Weak<Fetched>>,
}

/// Why nothing is known. Undecided is denied.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Undecided {
    /// The origin may not be contacted, or not now: see the failure.
    #[error(transparent)]
    Refused(egress::Error),
    #[error("the origin's robots.txt did not come in time")]
    TimedOut,
    /// A bound on fetches or waiters is reached.
    #[error("too many robots.txt files are being fetched")]
    Busy,
    /// The fetch was given up as no request waited for it. Who came to wait for it since begins another, so
    /// this is told to none.
    #[error("the fetch of the origin's robots.txt was not waited for")]
    Left,
    /// The fetch ended without a result: our fault, or the proxy is going down.
    #[error("the fetch of the origin's robots.txt was aborted")]
    Aborted,
}

impl Undecided {
    /// Whether a request that joined a fetch is to look again, as that ended so for the sake of others: where
    /// it was no longer waited for, always, and otherwise once.
    pub(super) const fn is_of_others(&self, is_first: bool) -> bool {
        match self {
            Self::Left => true,
            Self::Busy | Self::Aborted => is_first,
            Self::Refused(_) | Self::TimedOut => false,
        }
    }
}

impl Known {
    pub(super) fn if_current(
        (state, profile): &(Arc<RobotsState>, Arc<Profile>),
        view: &View<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        match state.standing(profile, now) {
            Standing::Current(_) => Some(Self {
                state: Arc::clone(state),
                profile: Arc::clone(profile),
                failed: view.failed.cloned(),
                asked_as: view.asked_as.cloned(),
                at: now,
            }),
            Standing::Due => None,
        }
    }

    /// What follows at `now`; where the state has come due since the store answered, what followed
    /// then. Whoever waits between the two asks the store again.
    pub fn policy(&self, now: Timestamp) -> Policy<'_> {
        let standing = match self.state.standing(&self.profile, now) {
            Standing::Due => self.state.standing(&self.profile, self.at),
            current @ Standing::Current(_) => current,
        };
        match standing {
            Standing::Current(policy) => policy,
            Standing::Due => {
                unreachable!("it is made only of a state that is current at that moment")
            }
        }
    }

    /// When it was found to be current: when the store answered.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// By what it is known again.
    pub fn mark(&self) -> Mark {
        Mark {
            state: Arc::downgrade(&self.state),
            failed: self.failed.as_ref().map(Arc::downgrade),
        }
    }

    pub fn state(&self) -> &RobotsState {
        &self.state
    }

    /// The last attempt to fetch the file, where none came of it.
    pub fn failed(&self) -> Option<&Fetched> {
        self.failed.as_deref()
    }

    /// The agent that the last attempt counts for, where it counts for no other.
    pub const fn asked_as(&self) -> Option<&FetchIdentity> {
        self.asked_as.as_ref()
    }

    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }
}

impl Mark {
    /// Whether `known` is the same state of the same origin, and the last attempt the same.
    pub fn is_of(&self, known: &Known) -> bool {
        let failed = match (&self.failed, &known.failed) {
            (Some(own), Some(other)) => own.as_ptr() == Arc::as_ptr(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        failed && self.state.as_ptr() == Arc::as_ptr(&known.state)
    }
}
