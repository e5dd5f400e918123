//! The answers of the store: what is known of an origin, or why nothing is.

use std::sync::Arc;

use crate::egress;
use crate::moment::Moment;
use crate::policy::profile::Profile;
use crate::policy::state::{Policy, RobotsState, Standing};

/// What is known of an origin under a profile. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Known {
    pub state: Arc<RobotsState>,
    pub profile: Arc<Profile>,
    /// The moment at which it was found current, and by which it is judged.
    pub at: Moment,
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
    /// The fetch ended without a result: our fault, or the proxy is going down.
    #[error("the fetch of the origin's robots.txt was aborted")]
    Aborted,
}

impl Known {
    pub(super) fn if_current(
        (state, profile): &(Arc<RobotsState>, Arc<Profile>),
        now: Moment,
    ) -> Option<Self> {
        let known = Self { state: Arc::clone(state), profile: Arc::clone(profile), at: now };
        known.policy().is_some().then_some(known)
    }

    /// What follows. `None` does not occur for what the store returns; who meets it has nothing to
    /// decide by.
    pub fn policy(&self) -> Option<Policy<'_>> {
        match self.state.standing(&self.profile, self.at) {
            Standing::Current(policy) => Some(policy),
            Standing::Due => None,
        }
    }
}
