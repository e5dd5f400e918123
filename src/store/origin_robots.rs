//! The results of a lookup: what is known of an origin, or why it is undecided.

use std::sync::{Arc, Weak};

use super::entry::View;
use super::single_flight::queue::CancelReason;
use crate::egress;
use crate::policy::access::CompletedFetch;
use crate::policy::profile::Profile;
use crate::policy::state::{Policy, PolicyStatus, RobotsState};
use crate::store::fetch::FetchIdentity;
use crate::types::timestamp::Timestamp;

/// What is known of an origin for a profile. Cheap to clone.
#[derive(Clone, Debug)]
pub struct OriginRobots {
    state: Arc<RobotsState>,
    profile: Arc<Profile>,
    failed: Option<Arc<CompletedFetch>>,
    only_agent: Option<FetchIdentity>,
    /// When the state was current.
    at: Timestamp,
}

/// Recognises an [`OriginRobots`] again without keeping it alive.
#[derive(Clone, Debug)]
pub struct WeakOriginRobots {
    state: Weak<RobotsState>,
    failed: Option<Weak<CompletedFetch>>,
}

/// Why a lookup has no result. Undecided is denied.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Undecided {
    /// The origin may not be contacted, or not at present: see the failure.
    #[error(transparent)]
    NotSent(egress::Error),
    #[error("the origin's robots.txt did not arrive in time")]
    TimedOut,
    /// The limit of fetches or waiters is reached.
    #[error("too many robots.txt files are being fetched")]
    Busy,
    /// The fetch was cancelled because no request waited for it. A request that has joined since
    /// starts another, so no request gets this.
    #[error("no request waited for the fetch of the origin's robots.txt")]
    Abandoned,
    /// The origin has failed for other agents a moment ago, and is not asked again so soon.
    #[error(
        "the origin's robots.txt was fetched for another agent a moment ago, and that failed; it is \
         fetched again after a while"
    )]
    BackOff,
    /// The fetch ended without a result: an internal error, or the proxy shuts down.
    #[error("the fetch of the origin's robots.txt was aborted")]
    Aborted,
}

impl From<CancelReason> for Undecided {
    fn from(reason: CancelReason) -> Self {
        match reason {
            CancelReason::Abandoned => Self::Abandoned,
            CancelReason::Busy => Self::Busy,
            CancelReason::Aborted => Self::Aborted,
        }
    }
}

impl Undecided {
    /// Whether a request that joined a fetch looks again, because that fetch ended for reasons of
    /// other clients: always if no request waited for it, otherwise once.
    pub(super) fn is_due_to_others(&self, is_first: bool) -> bool {
        match self {
            Self::Abandoned => true,
            Self::Busy | Self::Aborted => is_first,
            Self::BackOff | Self::NotSent(_) | Self::TimedOut => false,
        }
    }
}

impl OriginRobots {
    /// What `view` says for `profile`; `None` if there is no state for it, or it is due.
    pub(super) fn if_current(
        view: &View<'_>,
        profile: &Arc<Profile>,
        now: Timestamp,
    ) -> Option<Self> {
        let (state, profile) = view.state(profile).filter(|(state, _)| state.is_current(now))?;
        Some(Self {
            state: Arc::clone(state),
            profile: Arc::clone(profile),
            failed: view.failed().cloned(),
            only_agent: view.only_agent.cloned(),
            at: now,
        })
    }

    /// The policy at `now`. If the state has come due since the lookup, the policy at the lookup:
    /// callers that wait in between look up again.
    pub fn policy(&self, now: Timestamp) -> Policy<'_> {
        let status = match self.state.policy_status(&self.profile, now) {
            PolicyStatus::Due => self.state.policy_status(&self.profile, self.at),
            current @ PolicyStatus::Current(_) => current,
        };
        match status {
            PolicyStatus::Current(policy) => policy,
            PolicyStatus::Due => {
                unreachable!("it is made only of a state that is current at that moment")
            }
        }
    }

    /// The time of the lookup, at which the state was current.
    pub const fn at(&self) -> Timestamp {
        self.at
    }

    /// What recognises it again without keeping it alive.
    pub fn downgrade(&self) -> WeakOriginRobots {
        WeakOriginRobots {
            state: Arc::downgrade(&self.state),
            failed: self.failed.as_ref().map(Arc::downgrade),
        }
    }

    /// The state of the origin's robots.txt.
    pub fn state(&self) -> &RobotsState {
        &self.state
    }

    /// The last fetch, if it returned no file.
    pub fn failed(&self) -> Option<&CompletedFetch> {
        self.failed.as_deref()
    }

    /// The agent, if what decides was fetched for it alone; else it is the common copy.
    pub const fn only_agent(&self) -> Option<&FetchIdentity> {
        self.only_agent.as_ref()
    }

    /// The profile of the lookup.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }
}

impl WeakOriginRobots {
    /// Whether `known` has the same state of the same origin, and the same last fetch.
    pub fn is_of(&self, known: &OriginRobots) -> bool {
        let failed = match (&self.failed, &known.failed) {
            (Some(own), Some(other)) => own.as_ptr() == Arc::as_ptr(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        failed && self.state.as_ptr() == Arc::as_ptr(&known.state)
    }
}
